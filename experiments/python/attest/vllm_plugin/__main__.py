"""`attest-vllm`: runs vLLM on prompts of attest capture, with the plugin, and writes one dump
(experiments/manual/engines.md)."""
import contextlib
import hashlib
import importlib.metadata
import json
import os
import sys
import time

from ..base.command import end_process, interruption_of, run_command
from ..base.errors import InputError, UsageError, first_line
from ..base.inspected import ADVICE, refuse_bad_dump
from ..base.output_check import refuse_inputs
from ..base.places import code_digest
from ..base.progress import say as say_line
from ..capture.model import checkpoint_identity, files_of_model, load_config, load_tokenizer
from ..capture.model import refuse_missing_checkpoint
from ..capture.partial import PartialCapture
from ..capture.prompt_files import layers_of, read_prompts, refuse_same_names
from ..capture.prompt_tokens import tokenize
from ..capture.record import choose_queries
from .options import parse
from .settings import ARGUMENT, PREFIX


def run(options, say):
    """The command, once its options are parsed."""
    refuse_inputs(options.output, [*options.prompts, *files_of_model(options.model)])
    refuse_missing_checkpoint(options)
    prompts = [prompt for path in options.prompts for prompt in read_prompts(path, options.task, options.spans)]
    refuse_same_names(prompts)
    from .join import join_requests
    from ..base.hdf5_output import Hdf5Output

    with Hdf5Output(options.output, options.force):  # refuses before the model is loaded
        pass
    whole_config = load_config(options)
    config = whole_config.get_text_config()  # has the layers
    tokenizer = load_tokenizer(options, config) if any(p.text is not None for p in prompts) else None
    requests = [make_request(number, prompt, tokenize(prompt, tokenizer, options.chat, options.max_tokens), options,
                             config.num_hidden_layers) for number, prompt in enumerate(prompts)]
    with PartialCapture(options.output, options.resume, options.force) as partial, kept_or_removed(options, partial):
        partial.begin(identity(options, requests, whole_config), {})
        left = [request for request in requests if not request.is_finished(partial.folder)]
        if len(left) < len(requests):
            say(f"resumed: {len(requests) - len(left)} of {len(requests)} prompts were finished before")
        if left:
            began = time.monotonic()
            generate(options, left, partial.folder)
            say(f"{len(left)} prompt{'s' if len(left) > 1 else ''}, {sum(len(request.ids) for request in left)} "
                f"tokens, {time.monotonic() - began:.1f} s with the start of the engine")
            for request in left:
                if not request.files(partial.folder):
                    raise InputError(f"{request.prompt.where}: the plugin wrote no dump of it; is attest-vllm "
                                     f"installed in {sys.prefix}, and allowed by VLLM_PLUGINS?")
        paths = [path for request in requests for path in request.files(partial.folder)]
        joined = join_requests(paths, options.output, options.force, options.gzip, options.model_name)
    say(f"{options.output}: {joined.samples} sample{'s' if joined.samples > 1 else ''}, {joined.size / 2**20:.1f} MiB")


@contextlib.contextmanager
def kept_or_removed(options, partial):
    """What is finished stays for --resume, until the dump is whole."""
    try:
        yield
    except BaseException:
        if not options.resume:
            partial.remove()
        raise
    partial.remove()


class Request:
    """A prompt as vLLM and the plugin get it."""

    def __init__(self, number, prompt, ids, decode, arguments):
        self.number, self.prompt, self.ids, self.decode, self.arguments = number, prompt, ids, decode, arguments

    def files(self, folder):
        """One for each rank of the engine that has finished the prompt."""
        return sorted(folder.glob(f"prompt-{self.number}.h5")) + sorted(folder.glob(f"prompt-{self.number}.rank-*.h5"))

    def is_finished(self, folder):
        """With the dumps of all ranks. What is there of others is removed."""
        from .join import rank_of

        files = self.files(folder)
        for path in files:
            refuse_bad_dump(path, "a dump of the plugin", ADVICE)
        if files and len(files) == rank_of(files[0]).count():
            return True
        for path in files:
            path.unlink()
        return False


def make_request(number, prompt, tokenized, options, num_layers):
    """A prompt with what the plugin is asked to record of it."""
    ids, positions = choose_queries(options, prompt, tokenized)
    sample = {"spans": tokenized.spans, "span_labels": tokenized.span_labels, "document": prompt.document,
              "prompt_length": len(tokenized.ids), "name": prompt.name}
    arguments = {"name": f"prompt-{number}", "task": prompt.task, "positions": positions, "sample": json.dumps(sample)}
    if prompt.layers or options.layers:  # else those that a dump can describe, which the plugin knows
        arguments["layers"] = ",".join(map(str, sorted(layers_of(prompt, options.layers, num_layers))))
    return Request(number, prompt, ids, options.decode or 0,
                   {ARGUMENT + name: value for name, value in arguments.items()})


def identity(options, requests, config):
    """What decides the dump, for --resume."""
    content = hashlib.sha256(json.dumps([[r.ids, r.arguments] for r in requests]).encode()).hexdigest()
    return {"attest": code_digest(), "vllm": installed_version("vllm"), "torch": installed_version("torch"),
            "model": options.model, "revision": options.revision, "engine": options.engine, "prompts": content,
            "checkpoint": checkpoint_identity(options, config)}


def installed_version(package):
    """None: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def generate(options, requests, folder):
    """Runs the engine on all prompts; the plugin writes their dumps into the folder."""
    for path in folder.glob("*.refused"):
        path.unlink()
    os.environ[f"{PREFIX}FOLDER"], os.environ[f"{PREFIX}REQUESTS"] = os.path.abspath(folder), "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from vllm import LLM, SamplingParams

    engine = engine_arguments(options, max(len(request.ids) + request.decode for request in requests))
    try:
        llm = LLM(**engine)
        params = [SamplingParams(temperature=0, max_tokens=request.decode + 1, ignore_eos=True, detokenize=False,
                                 extra_args=request.arguments) for request in requests]
        llm.generate([{"prompt_token_ids": request.ids} for request in requests], params, use_tqdm=not options.quiet)
    except Exception as error:
        refuse_what_failed(folder, requests)
        raise InputError(f"{options.model}: vLLM cannot run it ({first_line(error)})") from error
    refuse_what_failed(folder, requests)


def refuse_what_failed(folder, requests):
    """The first refusal of the plugin, in which requests have the places of their prompts."""
    from .join import refusals

    for sentence in refusals(folder):
        for request in requests:
            sentence = sentence.replace(f"request prompt-{request.number}:", f"{request.prompt.where}:")
        raise InputError(sentence)


def engine_arguments(options, longest):
    """The arguments of LLM: ours, and over them what stands behind `--`, as `vllm serve` takes it."""
    import dataclasses

    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser(prog="attest-vllm ... --"))
    ours = ["--model", options.model, "--skip-tokenizer-init", "--no-enable-prefix-caching", "--enforce-eager",
            "--max-num-seqs", "8", "--max-model-len", str(longest + 1)]
    if options.revision:
        ours += ["--revision", options.revision]
    if options.trust_remote_code:
        ours.append("--trust-remote-code")
    try:
        given = EngineArgs.from_cli_args(parser.parse_args(ours + options.engine))
    except SystemExit:
        raise UsageError("the options behind -- are not those of vllm serve") from None
    settle_cpu(given)
    return {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}


def settle_cpu(given):
    """vLLM's defaults on a CPU need what a machine may lack. Of its memory they take 92 %, and fail where that is not
    free: half of what is free instead, for all ranks together. And they compile some functions with g++ and Python's
    headers, even if the model is not compiled."""
    import psutil
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    if given.gpu_memory_utilization == EngineArgs.gpu_memory_utilization:
        memory, ranks = psutil.virtual_memory(), given.tensor_parallel_size * given.pipeline_parallel_size
        given.gpu_memory_utilization = 0.5 * memory.available / memory.total / ranks
    if given.enforce_eager:
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # of the engine's processes


def main(arguments=None):
    """Ends the process."""
    arguments = sys.argv[1:] if arguments is None else arguments

    def command():
        options = parse(arguments)
        run(options, lambda line: say_line(line, options.quiet))
    end_process(run_command("attest-vllm", "vllm, transformers and h5py", command, interruption_of(arguments),
                            extra="vllm"))


if __name__ == "__main__":
    main()
