"""Dumps that the program's own reader looks at first, in a guarded child: h5py would follow a file out of itself, wait
for a pipe, and allocate what a file claims."""
import json
import os
import subprocess

from .errors import InputError
from .files import InputFile, in_quotes
from .program import find_program

# Data sets that the reader knows, of a sample and of a layer: nobody has looked at others.
OF_A_SAMPLE = {"layers", "query_positions", "tokens", "spans", "span_labels", "margin", "answer_token"}
OF_A_LAYER = {"q", "k", "v", "output", "output_lse", "sinks", "cache_scales", "attention_mass", "head_gradient",
              "output_gradient"}
ADVICE = "; remove it, and --resume makes it again"


def refuse_bad_dump(path, whose="a dump", advice=""):
    """`whose` dump is expected. The plugin of vLLM may be installed without the program: then a pipe is refused, and
    no more."""
    with InputFile(path):
        pass
    program = find_program()
    if program is None:
        return
    shown = subprocess.run([program, "--json", "inspect", "--", path], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if shown.returncode:
        said = os.fsdecode(shown.stderr).strip().removeprefix("attest: ")
        raise InputError((said or f"{path}: cannot be read (attest inspect ended with {shown.returncode})") + advice)
    if json.loads(shown.stdout).get("format") != "attention-dump":
        raise InputError(f"{path}: expected {whose}, found another file{advice}")


def refuse_unknown(group, known):
    """What is not among `known` may lead out of the file, or be of any size."""
    for name in group:
        if name not in known:
            raise ValueError(f"{in_quotes(group.name)} has {in_quotes(name)}")
