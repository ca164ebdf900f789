"""The LibTorch peer of attest bench study, on queries that see few keys."""
import json

import pytest

pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")

from attest_program import run_attest  # noqa: E402


@pytest.mark.parametrize("tokens", [1, 100, 128])  # one key, no full block, one full block
def test_the_peer_agrees_with_few_keys(tokens):
    done = run_attest("--json", "bench", "study", "--sweep-points", "0", "--tokens", tokens, "--queries", "1",
                      "--layers", "1", "--repeats", "1", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    layer = json.loads(done.stdout)["one_layer"][0]
    assert layer["cells_compared"] > 1000 and layer["cells_apart"] <= 5
