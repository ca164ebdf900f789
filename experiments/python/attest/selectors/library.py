"""Finds and loads the library of torch.ops.attest (analysis/torch_ops), and asks it whether it knows a selector."""
import os
import pathlib

import torch

from ..base import places
from ..base.errors import OutputError, UsageError, first_line

NAME = "libattest_torch_ops.so"


class SelectorError(UsageError, ValueError):
    """A selector, setting or list of layers that cannot be meant."""


class LibraryError(OutputError, ImportError):
    """The operator library is missing or cannot be loaded."""


def find_library():
    """ATTEST_TORCH_OPS, or the newest library that the checkout has built."""
    if os.environ.get("ATTEST_TORCH_OPS"):
        return pathlib.Path(os.environ["ATTEST_TORCH_OPS"])
    found = places.built(NAME)
    if found:
        return found[0]
    root = places.checkout()
    if root:
        raise LibraryError(f"{root}/build: found no release/{NAME} or cpu/{NAME}; `cmake/build.sh cpu attest --torch` "
                           "builds the latter, and ATTEST_TORCH_OPS names one elsewhere")
    raise LibraryError(f"{places.PACKAGE}: a wheel has no {NAME}: build it in a checkout of this version with the same "
                       "torch (`ATTEST_PYTHON=python cmake/build.sh cpu attest --torch`), and name it with "
                       f"ATTEST_TORCH_OPS=CHECKOUT/build/cpu/{NAME}")


def load_library(path=None):
    """Loads the operators once; a second library of the same names would end the process."""
    path = pathlib.Path(path or find_library()).resolve()
    if str(path) in torch.ops.loaded_libraries:
        return
    if not path.is_file():
        raise LibraryError(f"{path}: there is no such operator library; `cmake/build.sh cpu attest --torch` builds one")
    if hasattr(torch.ops.attest, "attend"):  # loading a second one would end the process
        raise LibraryError(f"{path}: another library of torch.ops.attest is loaded already")
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise LibraryError(f"{path}: cannot be loaded with torch {torch.__version__} ({first_line(error)})") from error


def runs_on(device_type):
    """Whether the loaded library attends on "cpu" or "cuda"."""
    return torch._C._dispatch_has_kernel_for_dispatch_key("attest::attend", device_type.upper())


def default_device():
    """A GPU if there is one on which the loaded library attends."""
    return "cuda" if torch.cuda.is_available() and runs_on("cuda") else "cpu"


def check_device(device):
    """Refuses a device on which the loaded library does not attend."""
    kind = torch.device(device).type
    if not runs_on(kind):
        raise SelectorError(f"the model is on {device}, and the operator library has no code for it: expected a model "
                            "on the CPU (--device cpu), or a library built with CUDA (ATTEST_CUDA=1)")


def check_selector(selector, setting, layers=(0,), kv_heads=1):
    """Refuses a text that names no selector, a setting that is none of its own, a selector that needs a dump, and heads
    that these layers lack."""
    refusals = []
    for values_in_keys in (False, True):  # a format may be for latent attention alone, which has one KV head
        one = torch.zeros(1, 1 if values_in_keys else kv_heads, 1, 128)
        try:
            for layer in layers:
                torch.ops.attest.attend(one, one, one, selector, setting, layer, 1.0, values_in_keys=values_in_keys)
            return
        except (ValueError, TypeError, RuntimeError) as error:
            refusals.append(error)
    raise SelectorError(first_line(refusals[0])) from refusals[0]
