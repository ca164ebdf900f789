"""tasks.h5: writes the outcomes of prompts and runs, and reads them back (README.md has the format)."""
import json
from dataclasses import dataclass

import h5py
import numpy as np

from dump_errors import InputError, first_line
from hdf5_output import Hdf5Output
from prompt_outcomes import Outcome, PromptOutcomes
from task_runs import Run

FORMAT, VERSION = "attest-tasks", 1
ANSWERED = ("greedy", "forced")
TEXT = h5py.string_dtype()


def write_outcomes(path, force, runs, prompts, manifest, **attributes):
    """`prompts`: of PromptOutcomes. `attributes`: model, num_layers and created."""
    with Hdf5Output(path, force) as output:
        output.write_attributes(format=FORMAT, format_version=VERSION, manifest=json.dumps(manifest, indent=1),
                                **attributes)

        def write(group, **columns):
            for name, (values, dtype) in columns.items():
                output.write_array(group, name, values, dtype)

        write(output.create_group(output.file, "prompts"),
              name=([p.name for p in prompts], TEXT), task=([p.task for p in prompts], TEXT),
              answer=([p.answer for p in prompts], TEXT), num_tokens=([p.num_tokens for p in prompts], "<i8"))
        write(output.create_group(output.file, "runs"),
              label=([r.label for r in runs], TEXT), selector=([r.selector for r in runs], TEXT),
              options=([r.options for r in runs], TEXT), setting_kind=([r.setting_kind for r in runs], TEXT),
              setting=([r.value for r in runs], "<f8"), setting_percent=([r.percent for r in runs], "u1"),
              setting_label=([r.typed for r in runs], TEXT))

        def table(field):
            return [[getattr(outcome, field) for outcome in prompt.outcomes] for prompt in prompts]

        write(output.create_group(output.file, "outcomes"),
              exact=(table("exact"), "u1"), contains=(table("contains"), "u1"), prefix=(table("prefix"), "u1"),
              answer=(table("reply"), TEXT), kept_ratio=(table("kept_ratio"), "<f4"),
              num_tokens=(table("num_tokens"), "<i4"))
        output.commit(ends_command=True)


@dataclass
class OutcomesFile:
    model: str
    manifest: dict
    runs: list  # of Run
    prompts: list  # of PromptOutcomes


def read_outcomes(path):
    """Raises InputError for a file that write_outcomes did not write."""
    try:
        with h5py.File(path) as file:
            found = file.attrs.get("format")
            if found != FORMAT or file.attrs["format_version"] != VERSION:
                raise InputError(f"{path}: expected outcomes of attest tasks (format {FORMAT}, version {VERSION}), "
                                 f"found {found!r}, version {file.attrs.get('format_version')}")
            return _read(file)
    except InputError:
        raise
    except (OSError, KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read as outcomes of attest tasks ({first_line(error)})") from error


def _read(file):
    def columns(group, *names):
        """A tuple per row of the group's data sets."""
        data = [file[f"{group}/{name}"] for name in names]
        return list(zip(*(d.asstr()[()].tolist() if h5py.check_string_dtype(d.dtype) else d[()].tolist() for d in data),
                        strict=True))

    runs = [Run(label, selector, "", options, kind, float(value), bool(percent), typed)
            for label, selector, options, kind, value, percent, typed in
            columns("runs", "label", "selector", "options", "setting_kind", "setting", "setting_percent",
                    "setting_label")]
    outcomes = [[Outcome(*cell) for cell in zip(*row, strict=True)] for row in
                columns("outcomes", "exact", "contains", "prefix", "answer", "kept_ratio", "num_tokens")]
    prompts = [PromptOutcomes(*row, cells) for row, cells in
               zip(columns("prompts", "name", "task", "answer", "num_tokens"), outcomes, strict=True)]
    if not runs or not prompts or any(len(p.outcomes) != len(runs) or p.num_tokens < 1 for p in prompts):
        raise ValueError("expected at least one prompt, and outcomes of prompts and runs, found other shapes")
    manifest = json.loads(file.attrs["manifest"])
    if manifest["answered"] not in ANSWERED:
        raise ValueError(f"expected a manifest that says greedy or forced, found {manifest['answered']!r}")
    return OutcomesFile(str(file.attrs["model"]), manifest, runs, prompts)
