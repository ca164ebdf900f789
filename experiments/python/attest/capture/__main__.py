"""`attest capture`: captures an attention dump from a Hugging Face decoder, or from llama.cpp (README.md, `attest
capture --help`)."""
import contextlib
import dataclasses
import hashlib
import pathlib
import sys

from ..base.clock import utc_now
from ..base.command import end_process, interruption_of, run_command
from ..base.output_check import refuse_inputs
from ..base.partial_folder import folder_of
from ..base.places import code_digest
from ..base.progress import say as say_line
from .model import checkpoint_identity, files_of_model, load_model, load_tokenizer, refuse_missing_checkpoint
from .options import parse
from .partial import PartialCapture
from .prompt_files import read_prompts, refuse_same_names
from .prompt_tokens import tokenize
from .record import capture_prompt, provenance, write_header


def capture_all(options, arguments, say):
    """The command, once its options are parsed."""
    refuse_inputs(options.output, [*options.prompts, *files_of_model(options.model)])
    engine = engine_of(options)
    prompts = [prompt for path in options.prompts for prompt in read_prompts(path, options.task, options.spans)]
    refuse_same_names(prompts)
    # These modules import torch and transformers, which takes seconds: --help must not wait for them.
    from ..base.dump_writer import DumpWriter

    output = pathlib.Path(options.output)
    with DumpWriter(output, options.force, options.gzip) as writer:  # refuses before the model is loaded
        source, created = provenance("attest capture", arguments, engine.libraries()), utc_now()
        with unfinished(options) as partial:
            if options.resume:
                size = capture_one_by_one(engine, options, arguments, prompts, partial, source, created, say)
            else:
                samples = engine(options, prompts)
                for prompt in prompts:
                    say(samples.write(prompt, writer))
                samples.write_header(writer, source, created)
                size = writer.commit(ends_command=True)
    say(f"{output}: {len(prompts)} sample{'s' if len(prompts) > 1 else ''}, {size / 2**20:.1f} MiB")


def engine_of(options):
    """The class that runs the model, once its file or folder has been found."""
    if not options.gguf:
        refuse_missing_checkpoint(options)
        return Samples
    from ..llama_cpp.model import refuse_missing_model
    from ..llama_cpp.samples import LlamaSamples

    refuse_missing_model(options.model)
    return LlamaSamples


class Samples:
    """The model with its attention captured."""
    libraries = staticmethod(lambda: None)  # the usual ones

    def __init__(self, options, prompts):
        from .attention import AttentionCapture

        self.options = options
        self.model, self.config = load_model(options)
        self.tokenizer = load_tokenizer(options, self.config) if any(p.text is not None for p in prompts) else None
        self.capture = AttentionCapture(self.model, None, options.attention_mass, options.attention_output)

    def write(self, prompt, writer):
        """Returns a line of report."""
        self.capture.writer = writer
        tokenized = tokenize(prompt, self.tokenizer, self.options.chat, self.options.max_tokens)
        return capture_prompt(self.options, self.model, self.config, self.capture, writer, prompt, tokenized)

    def write_header(self, writer, source, created):
        """Attributes of the root, after the samples: the geometry is known then."""
        write_header(writer, self.options, self.model, self.config, self.capture, source, created)


def unfinished(options):
    """The folder for --resume. Without it there is none, and one that is there is removed by --force or refused."""
    if options.resume or (folder_of(options.output) / PartialCapture.begun).exists():
        return PartialCapture(options.output, options.resume, options.force)
    return contextlib.nullcontext()


def capture_one_by_one(engine, options, arguments, prompts, partial, source, created, say):
    """A dump for each prompt in the folder of what is not finished, which are joined at the end. Returns its size."""
    from ..base.dump_writer import DumpWriter
    from .join import join_dumps

    how = [word for word in arguments if word not in ("--resume", "--force", "--quiet")]
    content = hashlib.sha256("".join(repr(dataclasses.asdict(prompt)) for prompt in prompts).encode()).hexdigest()
    record = partial.begin({"attest": code_digest(), "arguments": how, "prompts": content,
                            "by": source.rpartition(" (")[2], "checkpoint": checkpoint_identity(options)},
                           {"source": source, "created": created})
    paths = [partial.dump_path(number) for number in range(len(prompts))]
    left = [number for number, path in enumerate(paths) if not path.exists()]
    if len(left) < len(prompts):
        say(f"resumed: {len(prompts) - len(left)} of {len(prompts)} prompts were finished before")
    samples = engine(options, prompts) if left else None
    for number in left:
        with DumpWriter(paths[number], True, options.gzip) as writer:
            say(samples.write(prompts[number], writer))
            samples.write_header(writer, record["source"], record["created"])
            writer.commit()
    size = join_dumps(paths, options.output, options.force, options.gzip, ends_command=True)
    partial.remove()
    return size


def main(arguments):
    """Returns the exit code."""
    def command():
        options = parse(arguments)
        capture_all(options, arguments, lambda line: say_line(line, options.quiet))
    options_first = "".join(arguments[:1]).startswith("-")  # else the model stands there
    gguf = any(word.endswith(".gguf") for word in arguments[:None if options_first else 1])
    needed, extra = ("llama-cpp-python and h5py", "llama") if gguf else ("torch, transformers 5 and h5py", "models")
    return run_command("attest", needed, command, interruption_of(arguments), extra=extra)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
