#!/usr/bin/env python3
"""The command line of the lm-evaluation-harness, with the model `attest` (see README.md)."""
import pathlib
import sys

sys.path += [str(pathlib.Path(__file__).resolve().parents[2] / "dumps" / folder) for folder in ("capture", "python")]
from dump_command import end_process, run_command  # noqa: E402


def main():
    def command():
        from lm_eval.__main__ import cli_evaluate
        from lm_eval.api.registry import model_registry
        import lm_eval.models  # noqa: F401 (its own models: a registry that is not empty is not filled any more)

        if "attest" not in model_registry:
            model_registry.register("attest", target="lm_eval_model:SelectorLM")
        cli_evaluate()
    return run_command("lm_eval_attest.py", "torch, transformers 5, lm_eval and accelerate", command)


if __name__ == "__main__":
    end_process(main())
