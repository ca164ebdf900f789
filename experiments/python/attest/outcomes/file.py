"""Writes the outcomes of prompts and runs as tasks.h5 (../tasks/README.md). The program reads it: `attest inspect`."""
import json

import h5py

from ..base.hdf5_output import Hdf5Output

FORMAT, VERSION = "attest-tasks", 1
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
