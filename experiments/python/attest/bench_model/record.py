"""The record of a run as JSON, and its table."""
import os
import re
import statistics

import torch

from ..base.errors import printable
from ..base.printing import json_text

FORMAT, VERSION = "attest-model-bench", 1
BASELINES = {"flash": "sdpa_flash", "cudnn": "sdpa_cudnn"}


def measurement_json(measured, others):
    """`others`: all of the same context and batch. Speed-ups are ratios of median steps. The limit of one is what
    attention alone would give: the baseline's share of it, made faster by as much as the method's is."""
    step, attention = statistics.median(measured.step), statistics.median(measured.attention)
    setting = measured.setting
    found = {
        "method": measured.method,
        "context": measured.context,
        "batch": measured.batch,
        "setting": {"kind": setting.kind, "value": setting.value} if setting else {"kind": "none", "value": 0},
        "kept": measured.kept,
        "tokens_per_second": 1000 * measured.batch / step,
        "tokens_per_second_low": 1000 * measured.batch / max(measured.step),
        "tokens_per_second_high": 1000 * measured.batch / min(measured.step),
        "step_milliseconds": step,
        "attention_milliseconds": attention,
        "attention_share": min(1.0, attention / step),
        "cache_bytes": measured.cache_bytes,
    }
    for name, method in BASELINES.items():
        baseline = next((m for m in others if m.method == method), None)
        found[f"over_{name}"] = baseline and statistics.median(baseline.step) / step
        found[f"limit_{name}"] = baseline and limit(baseline, attention)
    return {
        **found,
        "check": {"logits_difference": measured.difference, "tolerance": measured.tolerance,
                  "without_attention": measured.effect},
        "milliseconds": measured.step,
        "milliseconds_of_attention": measured.attention,
    }


def limit(baseline, attention):
    """1 / (1 - share + share / speed-up)"""
    step, own = statistics.median(baseline.step), statistics.median(baseline.attention)
    share = min(1.0, own / step)
    return 1 / (1 - share + share * attention / own)


def record(request, decoder, config, random, measured, left_out, created):
    """The document of a run: what was measured, on what, and what was left out."""
    device = decoder.device
    cuda = device.type == "cuda"
    properties = torch.cuda.get_device_properties(device) if cuda else None
    measurements = [measurement_json(m, [o for o in measured if (o.context, o.batch) == (m.context, m.batch)])
                    for m in measured]
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "program": {"version": request["version"], "commit": request["git_commit"]},
        "created": created,
        "machine": {
            "gpu": properties.name if cuda else "none",
            "device": str(device),
            "memory_bytes": properties.total_memory if cuda else 0,
            "torch": torch.__version__,
            "cuda_runtime": torch.version.cuda or "",
        },
        "arguments": request["command"][1:],
        "seed": request["seed"],
        "model": {
            "name": os.path.basename(request["model"].rstrip("/")),
            "family": config.model_type,
            "random_weights": random,
            "layers": decoder.num_layers,
            "hidden": config.hidden_size,
            "num_query_heads": decoder.heads,
            "num_kv_heads": decoder.kv_heads,
            "head_dim": decoder.head_dim,
            "element_type": str(decoder.dtype).removeprefix("torch."),
            "weight_bytes": decoder.weight_bytes(),
        },
        "measurements": measurements,
        "left_out": left_out,
    }


def text_of(document):
    """JSON, lists of numbers on one line."""
    return re.sub(r"\[[-\d.,e\s]+\]", lambda found: re.sub(r"\s+", " ", found.group()), json_text(document))


def named(line):
    """The method of what was left out, with its setting where others of the method may be there."""
    return f"{line['method']} {setting_text(line)}" if "setting" in line else line["method"]


def setting_text(measurement):
    """"keep 6 %", "delta 5"; empty for dense attention."""
    setting = measurement["setting"]
    texts = {"none": "", "keep": f"keep {100 * setting['value']:.3g} %", "delta": f"delta {setting['value']:g}"}
    return texts[setting["kind"]]


def length_text(tokens):
    """Tokens: "32K", "1000"."""
    return f"{tokens // 1024}K" if tokens % 1024 == 0 else str(tokens)


def optional(value):
    """A speed-up; "-" without the baseline."""
    return "-" if value is None else f"{value:.2f}x"


def table(document):
    """A line for each measurement."""
    rows = [["context", "batch", "method", "", "kept", "tokens/s", "least..most", "ms/step", "attention", "caches GB",
             "over flash", "limit", "over cuDNN", "limit"]]
    for m in document["measurements"]:
        rows.append([
            length_text(m["context"]), str(m["batch"]), m["method"], setting_text(m), f"{100 * m['kept']:.1f}%",
            f"{m['tokens_per_second']:.1f}", f"{m['tokens_per_second_low']:.1f}..{m['tokens_per_second_high']:.1f}",
            f"{m['step_milliseconds']:.2f}", f"{100 * m['attention_share']:.1f}%", f"{m['cache_bytes'] / 1e9:.2f}",
            *(optional(m[name]) for name in ("over_flash", "limit_flash", "over_cudnn", "limit_cudnn"))])
    rows += [[length_text(line["context"]), str(line["batch"]), line["method"], setting_text(line), "left out",
              *"-" * 9] for line in document["left_out"] if "setting" in line]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(w) if n in (2, 3) else cell.rjust(w)
                       for n, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]
    model, machine = document["model"], document["machine"]
    head = (f"{printable(model['name'])}{', random weights' if model['random_weights'] else ''}: "
            f"{model['layers']} layers, {model['num_query_heads']} query heads, {model['num_kv_heads']} KV heads of "
            f"{model['head_dim']}, {model['element_type']}, weights of {model['weight_bytes'] / 1e9:.1f} GB; "
            f"{machine['gpu']} ({machine['device']}), torch {machine['torch']}")
    ends = []
    if document["measurements"]:
        worst = max(document["measurements"], key=lambda m: m["check"]["logits_difference"])["check"]
        ends = ["Checked first: with everything kept, logits differ from those of attention in float32 by at most "
                f"{worst['logits_difference']:.2g} of their norm (tolerance {worst['tolerance']:g}).",
                "limit: 1 / (1 - share + share / speed-up), of the baseline's share of attention and the speed-up of "
                "the attention alone."]
    left = [f"left out: {named(line)}, context {length_text(line['context'])}, batch {line['batch']}: "
            f"{line['reason']}" for line in document["left_out"]]
    return "\n".join([head, "", *lines, "", *ends, *left])
