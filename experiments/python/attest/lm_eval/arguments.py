"""The model arguments of the lm-evaluation-harness that choose a selector: its text, its setting and its layers."""
import math
import re

import torch

from ..base.arguments import chosen_layers, layer_list
from ..base.errors import UsageError
from ..selectors.library import SelectorError

KINDS = ("delta", "budget", "p", "factor")


def selector_text(selector, settings_file=None):
    """NAME[:option=value,...] with the option settings_file."""
    if settings_file is None:
        return str(selector)
    return f"{selector}{',' if ':' in str(selector) else ':'}settings_file={settings_file}"


def setting_of(selector, given):
    """The number that attend takes for `given`, {kind: value or None}. A budget such as 25% becomes 0.25."""
    given = {kind: value for kind, value in given.items() if value is not None}
    try:
        kind = torch.ops.attest.setting_kind(selector)
    except ValueError as error:
        raise SelectorError(str(error)) from error
    takes = "has no setting" if kind == "none" else f"takes {kind}="
    found = ", ".join(f"{name}={value}" for name, value in given.items())
    if given.keys() - {kind}:
        raise SelectorError(f"model_args: selector={selector} {takes}, found {found}")
    if not given:
        if kind != "none" and "settings_file=" not in selector:
            raise SelectorError(f"model_args: selector={selector} {takes}, found no setting")
        return 0.0
    text = str(given[kind])
    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", text, re.ASCII)
    try:
        value = float(share[1]) / 100 if share and kind == "budget" else float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value) or (kind == "budget" and (value < 1) != bool(share)) or (share and value >= 1):
        expected = "a number of tokens, or a share below 100%" if kind == "budget" else "a number"
        raise SelectorError(f"model_args: expected {kind}= {expected}, found {found}")
    return value


def layers_of_argument(layers, num_layers):
    """The layers that an argument such as 5, "0,4,8-11" or 20- means; None: all."""
    if layers is None:
        return None
    if isinstance(layers, (list, tuple)):
        layers = ",".join(map(str, layers))
    try:
        ranges = layer_list(str(layers))
    except Exception as error:  # argparse's own type, with what was expected
        raise SelectorError(f"model_args: layers={layers}: {error}") from error
    try:
        return sorted(chosen_layers(ranges, num_layers, "model_args: layers: "))
    except UsageError as error:
        raise SelectorError(str(error)) from error
