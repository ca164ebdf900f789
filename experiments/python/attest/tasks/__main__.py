"""`attest tasks`: answers prompts with a model through selectors, and writes the outcomes (README.md).
experiments/commands/tasks.cpp calls it with the selectors as JSON and all other options as they were given."""
import datetime
import hashlib
import json
import os
import subprocess
import sys
import time

from ..base.arguments import chosen_layers
from ..base.clock import utc_now
from ..base.command import NOTHING_WRITTEN, end_process, run_command
from ..base.errors import OutputError, printable
from ..base.output_check import refuse_existing, refuse_inputs
from ..base.places import code_digest
from ..base.printing import json_text, print_report
from ..base.program import program
from ..base.progress import say
from ..base.signals import raise_if_interrupted
from ..capture.model import checkpoint_identity, files_of_model, length_warning, load_model, load_tokenizer
from ..capture.model import model_name, refuse_missing_checkpoint, refuse_unknown_tokens, vocabulary_of
from ..capture.prompt_tokens import tokenize
from ..capture.record import provenance
from .options import parse
from .plan import made_prompts, prompts_of_file
from .runs import runs_of


class TaskProgress:
    """Lines on stderr, and how many prompts are finished."""

    def __init__(self):
        self.quiet, self.total, self.finished, self.spent, self.answered = False, None, 0, 0.0, 0

    def say(self, line):
        """Writes a line to stderr, unless --quiet."""
        say(line, self.quiet)

    def prompt_done(self, found, seconds, warning):
        """A line with what is left, by the mean time of the prompts that this process answered."""
        self.finished, self.spent, self.answered = self.finished + 1, self.spent + seconds, self.answered + 1
        dense, *others = [outcome.right() for outcome in found.outcomes]
        left = datetime.timedelta(seconds=round((self.total - self.finished) * self.spent / self.answered))
        self.say(f"[{self.finished}/{self.total}] {found.name}: {found.num_tokens} tokens, dense "
                 f"{'right' if dense else 'wrong'}, {sum(others)} of {len(others)} runs right, {seconds:.1f} s, {left} "
                 f"left{warning}")

    def interruption(self):
        """What is said after Ctrl-C."""
        if not self.finished:
            return NOTHING_WRITTEN
        return (f"interrupted with {self.finished} of {self.total} prompts finished; the same command with --resume "
                "goes on")


def configuration(options, model, prompts, layers):
    """What decides the outcomes, for the manifest."""
    import torch
    import transformers

    request = options.request
    return {"program": {"name": "attest", "version": request["version"], "git_commit": request["git_commit"]},
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "model": {"name": options.model, "called": model_name(options), "revision": options.revision,
                      "dtype": str(model.dtype).removeprefix("torch."), "device": model.device.type},
            "tokenizer": {"name": options.tokenizer, "first_token": options.first_token, "chat": options.chat},
            "prompts": prompts,
            "selectors": request["selectors"],
            "layers": "all" if layers is None else sorted(layers),
            "answered": "forced" if options.forced else "greedy",
            "max_new_tokens": options.max_new_tokens,
            "scoring": ["prefix"] if options.forced else ["exact", "contains", "prefix"],
            "dump": options.dump and {"queries": options.dump_queries, "layers": options.dump_layers,
                                      **{name: True for name in ("head_weights", "output_gradients")
                                         if getattr(options, name)}}}


def code_and_checkpoint(options, model):
    """What else --resume compares: names and versions stay while what they name changes."""
    from ..selectors.library import find_library

    return {"code": code_digest(), "operators": hashlib.sha256(find_library().read_bytes()).hexdigest(),
            "checkpoint": checkpoint_identity(options, model.config)}


def run_tasks(options, progress):
    """The command; what can be refused is refused before the model is loaded."""
    for output in filter(None, (options.output, options.dump)):
        refuse_inputs(output, [options.prompts if isinstance(options.prompts, str) else options.haystack,
                               *files_of_model(options.model)])
    refuse_missing_checkpoint(options)
    refuse_existing(options.output, options.force)
    if options.dump:
        refuse_existing(options.dump, options.force or options.resume)
        if os.path.abspath(options.dump) == os.path.abspath(options.output):
            raise OutputError(f"{options.dump}: is both --dump and --output, expected two files")
    file_prompts = prompts_of_file(options.prompts) if isinstance(options.prompts, str) else None
    # These modules import torch, transformers and h5py, which takes seconds.
    from ..outcomes.partial import PartialOutcomes

    with PartialOutcomes(options.output, options.resume, options.force) as partial:
        answer_all(options, progress, partial, runs_of(options.request["selectors"]), file_prompts)


def answer_all(options, progress, partial, runs, file_prompts):
    """Loads the model, answers what is left, and writes outcomes and dump."""
    import torch

    from .answers import ModelAnswers, answer_text, measure
    from ..selectors.library import check_device, default_device, load_library
    from ..outcomes.file import write_outcomes
    from ..selectors.attention import attach
    from ..capture.join import join_dumps
    from .dump import TaskDump, is_of

    torch.set_num_threads(options.threads)
    load_library()
    options.device = default_device() if options.device == "auto" else options.device
    check_device(options.device)
    model, config = load_model(options)
    tokenizer = load_tokenizer(options, config)
    layers = chosen_layers(options.layers, config.num_hidden_layers) if options.layers else None
    attention = attach(model)
    attention.crop(attention.new_cache(), 0)  # refuses a model whose cache cannot be cut back to the prompt
    for run in runs:  # a setting or layer that cannot be is said before the first prompt is read
        attention.use(run.text, run.operator_setting(), layers)
    answers = ModelAnswers(model, attention, tokenizer, layers)

    def tokenized(prompt):
        found = tokenize(prompt, tokenizer, options.chat)
        answer_text(answers, prompt, found)  # refuses a prompt without an answer
        refuse_unknown_tokens(vocabulary_of(model), prompt, found.ids + found.answer)
        return found

    planned, prompts = file_prompts or made_prompts(options, tokenizer)
    for plan in planned if file_prompts else []:  # what is wrong with the last prompt is said before the first is read
        tokenized(plan.make())

    what = configuration(options, model, prompts, layers)
    record = partial.begin({**what, **code_and_checkpoint(options, model)},
                           {"created": utc_now(), "command_line": options.request["command"]})
    source = provenance("attest", record["command_line"][1:])
    if options.dump:
        refuse_existing(options.dump, options.force or is_of(options.dump, source, record["created"]))
    dump = TaskDump(model, config, options, source, record["created"]) if options.dump else None
    progress.total, outcomes = len(planned), []
    known = [partial.finished(n, p.name, len(runs), bool(dump)) for n, p in enumerate(planned)]
    progress.finished = sum(found is not None for found in known)
    if progress.finished:
        progress.say(f"resumed: {progress.finished} of {progress.total} prompts were finished before")
    for number, (plan, found) in enumerate(zip(planned, known)):
        raise_if_interrupted()
        if found is None:
            began = time.monotonic()
            prompt = plan.make()
            tokens = tokenized(prompt)
            cache = dump.read_prompt(answers, prompt, tokens, partial.dump_path(number)) if dump else \
                answers.prefill(tokens.ids)
            found = measure(answers, runs, prompt, tokens, cache, options)
            partial.store(number, found)
            warning = length_warning(config, len(tokens.ids) + len(tokens.answer))
            progress.prompt_done(found, time.monotonic() - began, warning)
        outcomes.append(found)
    if dump:
        join_dumps([partial.dump_path(number) for number in range(len(planned))], options.dump,
                   options.force or options.resume)
    write_outcomes(options.output, options.force, runs, outcomes, {**what, **record}, model=model_name(options),
                   num_layers=config.num_hidden_layers, created=record["created"])
    partial.remove()
    report(options, what["model"])


def report(options, model):
    """The table is the one of `attest inspect`."""
    shown = subprocess.run([program(), *["--json"] * options.json, "inspect", "--", options.output], text=True,
                           stdout=subprocess.PIPE)
    if shown.returncode:
        raise OutputError(f"{options.output}: is written, and cannot be read back")
    if options.json:
        summary = json.loads(shown.stdout)
        del summary["format"], summary["model"]
        written = {"outcomes": os.fsencode(options.output).decode(errors="replace"), "device": model["device"],
                   "dtype": model["dtype"], **summary}
        text = json_text(written)
    else:
        table = shown.stdout.split("\n\n", 1)[1]
        text = (f"{table}Outcomes: {printable(options.output)} "
                f"({model['device']}, {model['dtype']}, {options.threads} thread{'s' if options.threads > 1 else ''})")
    print_report(text)


def main(arguments):
    """Returns the exit code."""
    progress = TaskProgress()

    def command():
        options = parse(arguments)
        progress.quiet = options.quiet
        run_tasks(options, progress)
    return run_command("attest", "torch, transformers 5 and h5py", command, progress.interruption)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
