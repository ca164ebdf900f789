"""The command line of the lm-evaluation-harness, with the model `attest` (README.md)."""
import dataclasses

from ..base.command import end_process, run_command


def adapt_harness():
    """Registers the model, and takes back two defaults of the harness that do not fit it."""
    import lm_eval.models  # noqa: F401 (its own models: a registry that is not empty is not filled any more)
    from lm_eval.api.registry import model_registry
    from lm_eval.config import evaluate_config
    from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker

    if "attest" not in model_registry:
        model_registry.register("attest", target="attest.lm_eval.model:SelectorLM")

    @dataclasses.dataclass
    class EvaluatorConfig(evaluate_config.EvaluatorConfig):
        device: str | None = None  # the model chooses; the harness would take cuda:0, also where there is no GPU

    evaluate_config.EvaluatorConfig = EvaluatorConfig
    name_of = GeneralConfigTracker._get_model_name

    def model_name(model_args):
        """Names the folder of results. `delta` is a setting here, and no name of delta weights."""
        if isinstance(model_args, dict):
            model_args = {name: value for name, value in model_args.items() if name != "delta"}
        return name_of(model_args)

    GeneralConfigTracker._get_model_name = staticmethod(model_name)


def main():
    """The harness's own command line, with the model type of this package. Returns the exit code."""
    def command():
        from lm_eval.__main__ import cli_evaluate

        adapt_harness()
        cli_evaluate()
    return run_command("attest.lm_eval", "torch, transformers 5, lm_eval and accelerate", command, extra="lm_eval")


if __name__ == "__main__":
    end_process(main())
