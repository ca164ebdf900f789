"""Memory of torch.ops.attest.attend: a KV head at a time as float32, and no other copy of keys and values."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attend_cases  # noqa: F401, skips where there is no operator library

SCRIPT = """
import re, sys
from pathlib import Path
from attend_cases import attend, tensors, torch

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)) / 1024

torch.set_num_threads(1)
q, k, v = tensors(heads=8, kv_heads=8, tokens=32768, dim=64, value_dim=64, dtype=getattr(torch, sys.argv[1]))
attend(q[:, :, :, :], k[:, :, :64], v[:, :, :64], sys.argv[2], float(sys.argv[3]))
Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
before = status("VmRSS")
attend(q, k, v, sys.argv[2], float(sys.argv[3]))
print(status("VmHWM") - before)
"""


@pytest.mark.parametrize("dtype, most", [("bfloat16", 24), ("float32", 8)])  # a KV head in float32: 16 MiB; all: 128
@pytest.mark.parametrize("selector, setting", [("exact", 0), ("streaming_llm", 1024), ("quest", 1024)])
def test_only_a_kv_head_is_copied(dtype, most, selector, setting):
    done = subprocess.run([sys.executable, "-c", SCRIPT, dtype, selector, str(setting)], capture_output=True, text=True,
                          cwd=Path(__file__).parent, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    if "clear_refs" in done.stderr:
        pytest.skip("this system does not measure peaks")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < most
