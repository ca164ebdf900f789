#!/usr/bin/env python3
"""Captures an attention dump from a Hugging Face decoder (see README.md and `capture.py --help`)."""
import datetime
import pathlib
import re
import shlex
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from capture_model import length_warning, load_model, load_tokenizer, model_name  # noqa: E402
from capture_model import refuse_missing_checkpoint, refuse_unknown_tokens, rope_parameters  # noqa: E402
from capture_options import chosen_layers, parse  # noqa: E402
from capture_prompts import read_prompts, refuse_same_names, tokenize  # noqa: E402
from dump_command import end_process, run_command  # noqa: E402
from dump_errors import InputError  # noqa: E402
from output_check import refuse_inputs  # noqa: E402


def choose_queries(options, prompt, tokenized):
    """Token ids for the first forward pass, and the positions of the queries to write."""
    ids, length = tokenized.ids, len(tokenized.ids)
    if options.decode:
        return ids, list(range(length, length + options.decode))
    if options.answer:
        if len(tokenized.answer) < options.answer:
            raise InputError(f"{prompt.where}: --answer {options.answer} needs an \"answer\" of as many tokens, found "
                             f"{len(tokenized.answer)}")
        return ids + tokenized.answer[:options.answer - 1], list(range(length - 1, length - 1 + options.answer))
    if options.last:
        if length < options.last:
            raise InputError(f"{prompt.where}: --last {options.last} of a prompt of {length} tokens")
        return ids, list(range(length - options.last, length))
    positions = sorted({p + length if p < 0 else p for p in options.positions})
    if positions[0] < 0 or positions[-1] >= length:
        raise InputError(f"{prompt.where}: --positions reaches outside of the prompt's {length} tokens")
    return ids, positions


def capture_prompt(options, model, config, capture, writer, prompt, tokenized, cache=None):
    """Runs the model on one prompt and writes its sample. Returns a line of report about it. Of `options` it takes
    layers, and those that choose the queries. `cache`: as in run_model."""
    from run_model import run_model

    num_layers = config.num_hidden_layers
    layers = prompt.layers or chosen_layers(options.layers or [(0, None)], num_layers)
    if max(layers) >= num_layers:
        raise InputError(f"{prompt.where}: there is no layer {max(layers)}, the model has {num_layers}")
    ids, positions = choose_queries(options, prompt, tokenized)
    num_tokens = len(ids) + (options.decode or 0)
    refuse_unknown_tokens(model, prompt, ids)
    began = time.monotonic()
    sample = writer.create_sample(prompt.name, prompt.task, num_tokens, positions, tokenized.spans,
                                  tokenized.span_labels, len(tokenized.ids))
    capture.begin_sample(sample, num_tokens, len(tokenized.ids), positions, layers)
    ids, predicted = run_model(model, capture, ids, options.decode or 0, options.answer or 1, cache)
    writer.write_array(sample, "tokens", ids, "<i4")

    captured = set(capture.captured)
    line = f"{prompt.name}: {num_tokens} tokens, {len(captured)} layers, queries {positions[0]}..{positions[-1]}"
    if captured != layers:
        line += f", left out, no softmax attention: layers {', '.join(map(str, sorted(layers - captured)))}"
    if options.answer:
        right = sum(p == a for p, a in zip(predicted, tokenized.answer))
        line += f", {right} of {options.answer} answer tokens predicted right"
    return f"{line}{length_warning(config, num_tokens)}, {time.monotonic() - began:.1f} s"


def write_header(writer, options, model, config, capture, source, created):
    writer.write_header(model=model_name(options), num_layers=config.num_hidden_layers, **capture.geometry,
                        rope=rope_parameters(model, config), source=source, created=created)


def provenance(program, arguments):
    """The command line for the dump's `source` attribute. Paths are cut to their last part."""
    import torch
    import transformers

    names = [re.sub(r"(?:^|(?<==))[~.]*/(?:.*/)?", "", argument.rstrip("/")) for argument in arguments]
    return f"{program} {shlex.join(names)} (transformers {transformers.__version__}, torch {torch.__version__})"


def capture_all(options, arguments, say):
    refuse_inputs(options.output, options.prompts)
    refuse_missing_checkpoint(options)
    prompts = [prompt for path in options.prompts for prompt in read_prompts(path, options.task, options.spans)]
    refuse_same_names(prompts)
    # These modules import torch and transformers, which takes seconds: --help must not wait for them.
    from capture_attention import AttentionCapture
    from dump_writer import DumpWriter

    output = pathlib.Path(options.output)
    with DumpWriter(output, options.force, options.gzip) as writer:  # refuses before the model is loaded
        model, config = load_model(options)
        tokenizer = load_tokenizer(options, config) if any(p.text is not None for p in prompts) else None
        capture = AttentionCapture(model, writer, options.attention_mass)
        for prompt in prompts:
            tokenized = tokenize(prompt, tokenizer, options.chat, options.max_tokens)
            say(capture_prompt(options, model, config, capture, writer, prompt, tokenized))
        created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        write_header(writer, options, model, config, capture, provenance("capture.py", arguments), created)
        size = writer.commit(ends_command=True)
    say(f"{output}: {len(prompts)} sample{'s' if len(prompts) > 1 else ''}, {size / 2**20:.1f} MiB")


def main(arguments):
    def command():
        options = parse(arguments)
        capture_all(options, arguments,
                    (lambda line: None) if options.quiet else (lambda line: print(line, file=sys.stderr, flush=True)))
    return run_command("capture.py", "torch, transformers 5 and h5py", command)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
