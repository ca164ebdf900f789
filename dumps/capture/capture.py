#!/usr/bin/env python3
"""Captures an attention dump from a Hugging Face decoder (see README.md and `capture.py --help`)."""
import argparse
import datetime
import json
import pathlib
import re
import shlex
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from capture_prompts import ByteTokenizer, read_prompts, tokenize  # noqa: E402
from dump_command import run_command  # noqa: E402
from dump_errors import DumpError, InputError, UsageError, first_line  # noqa: E402

DESCRIPTION = """\
Runs a Hugging Face decoder on prompts and writes the queries, keys and values of
its attention, exactly as attention multiplies them, to an attention dump.
Llama, Qwen2 and 3, Mistral, Gemma, Phi and every other decoder whose attention
is softmax(scale q k) v, with grouped heads, soft-cap and sliding windows or without.
"""

EPILOG = """\
prompts:
  A .jsonl file holds one prompt per line, an object with the fields
    text         the prompt; or "tokens", a list of token ids
    task, name   what it is, and what its sample is called    (both optional)
    answer       the reply that --answer feeds, text or ids   (optional)
    spans        where the evidence stands: each a string (its first occurrence
                 in the text) or [begin, end) in characters, or in tokens if the
                 prompt is tokens                             (optional)
    span_labels  a name for each span                         (optional)
    layers       a list that overrides --layers for this prompt
  Any other file is one prompt.

examples:
  # all layers of one long text, the last 4 queries of the prompt
  capture.py meta-llama/Llama-3.1-8B-Instruct book.txt -o book.h5

  # 8 generated steps of every prompt of a benchmark, every eighth layer
  capture.py Qwen/Qwen3-8B ruler.jsonl -o ruler.h5 --chat --decode 8 --layers 0,8,16,24

  # the four queries that produce the start of a known answer, on a GPU
  capture.py ./checkpoint needles.jsonl -o needles.h5 --answer 4 --spans --device cuda

exit codes: 0 success, 2 usage, 4 bad input, 5 output or a missing module, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    def error(self, message):  # one sentence, without the usage text
        raise UsageError(f"{message} (--help lists the options)")


def count(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def integer_list(text):
    return [int(item) for item in text.split(",")]


def layer_list(text):
    """"0,4,8-11" """
    layers = set()
    for item in text.split(","):
        begin, _, end = item.partition("-")
        layers.update(range(int(begin), int(end or begin) + 1))
    if not layers:
        raise ValueError
    return layers


count.__name__, integer_list.__name__, layer_list.__name__ = "count", "list of integers", "list of layers"


def parse(arguments):
    parser = Parser(prog="capture.py", usage="capture.py MODEL PROMPTS... -o DUMP [options]", description=DESCRIPTION,
                    epilog=EPILOG, add_help=False, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="name on the Hugging Face hub, or folder of a checkpoint")
    parser.add_argument("prompts", metavar="PROMPTS", nargs="+", help="text or .jsonl files")
    parser.add_argument("-o", "--output", metavar="DUMP", required=True, help="the dump to write")

    queries = parser.add_argument_group("which queries (one of these; default --last 4)").add_mutually_exclusive_group()
    queries.add_argument("--last", metavar="N", type=count, help="the last N positions of the prompt")
    queries.add_argument("--positions", metavar="P,...", type=integer_list,
                         help="these positions of the prompt; --positions=-1 counts from its end")
    queries.add_argument("--decode", metavar="N", type=count,
                         help="N decode steps: the queries of the next N tokens, generated greedily")
    queries.add_argument("--answer", metavar="N", type=count,
                         help="the queries that produce the first N tokens of the prompt's known answer: each stands one"
                              " token before, and sees the answer so far")

    what = parser.add_argument_group("what to write")
    what.add_argument("--layers", metavar="LIST", type=layer_list, help="0,4,8-11 (default: all)")
    what.add_argument("--spans", metavar="FIELD", nargs="?", const="spans",
                      help="demand evidence spans of every prompt, from this field (default: \"spans\", where there)")
    what.add_argument("--task", metavar="NAME", help="task of all prompts, over what the .jsonl says")
    what.add_argument("--model-name", metavar="NAME", help="what the dump calls the model (default: MODEL)")
    what.add_argument("--attention-mass", action="store_true",
                      help="also the attention that each token gets from all of the prompt's queries, for eviction"
                           " methods (costs a second pass of float32 attention)")
    what.add_argument("--gzip", metavar="LEVEL", type=int, choices=range(1, 10), nargs="?", const=4, default=0,
                      help="compress: a tenth to a third smaller, slower to read (1..9, default 4)")
    what.add_argument("--force", action="store_true", help="overwrite the dump if it exists")

    how = parser.add_argument_group("how to run the model")
    how.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    how.add_argument("--dtype", choices=("float16", "bfloat16", "float32"),
                     help="run the model, and write the dump, in this type (default: the checkpoint's)")
    how.add_argument("--chat", action="store_true", help="put each text into the tokenizer's chat template, as the user's")
    how.add_argument("--max-tokens", metavar="N", type=count, help="cut prompts after N tokens")
    how.add_argument("--tokenizer", metavar="NAME",
                     help="another tokenizer; \"bytes\": the UTF-8 bytes, after the model's first token if it has one")
    how.add_argument("--revision", metavar="REV", help="branch, tag or commit on the hub")
    how.add_argument("--trust-remote-code", action="store_true", help="let the checkpoint bring its own code")
    how.add_argument("--quiet", action="store_true", help="no progress")
    how.add_argument("-h", "--help", action="help", help="show this and exit")
    options = parser.parse_args(arguments)
    if not (options.last or options.positions or options.decode or options.answer):
        options.last = 4
    return options


def load_model(options):
    import torch
    import transformers

    if int(transformers.__version__.split(".")[0]) < 5:
        raise DumpError(f"transformers 5 or later is needed, found {transformers.__version__}")
    transformers.utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"--device {device}: there is no CUDA GPU here")
    from_hub = {"revision": options.revision, "trust_remote_code": options.trust_remote_code}
    dtype = getattr(torch, options.dtype) if options.dtype else "auto"
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype, **from_hub)
        model = model.to(device).eval()
    except Exception as error:  # whatever is wrong with the checkpoint, in the library's words
        raise InputError(f"{options.model}: cannot be loaded as a decoder ({first_line(error)})") from error
    config = model.config.get_text_config()
    if getattr(config, "kv_lora_rank", None):
        raise InputError(f"{options.model}: its attention is multi-head latent attention, whose latent cache this script "
                         "cannot capture")
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{options.model}: is no decoder-only model")
    return model, config


def load_tokenizer(options, config):
    import transformers

    if options.tokenizer == "bytes":
        return ByteTokenizer(config.bos_token_id)
    name = options.tokenizer or options.model
    try:
        return transformers.AutoTokenizer.from_pretrained(name, revision=None if options.tokenizer else options.revision,
                                                          trust_remote_code=options.trust_remote_code)
    except Exception as error:
        raise InputError(f"{name}: no tokenizer can be loaded ({first_line(error)}); --tokenizer names another, and prompts"
                         " of token ids need none") from error


def rope_parameters(model, config):
    """JSON of the rotary parameters. It includes the frequencies in use unless they depend on the length of the prompt.
    Models that rotate differently by layer type get one object per type, and the type of each layer."""
    parameters = getattr(config, "rope_parameters", None)
    if not parameters:
        return None
    rotary = next((m for m in model.get_decoder().modules() if type(m).__name__.endswith("RotaryEmbedding")), None)

    def with_frequencies(kind, prefix):
        frequencies = getattr(rotary, f"{prefix}inv_freq", None)
        if frequencies is None or kind.get("rope_type") in ("dynamic", "longrope"):
            return dict(kind)
        return {**kind, "inv_freq": frequencies.float().tolist(),
                "attention_scaling": float(getattr(rotary, f"{prefix}attention_scaling", 1.0))}

    if all(isinstance(kind, dict) for kind in parameters.values()):
        described = {name: with_frequencies(kind, f"{name}_") for name, kind in parameters.items()}
        described["layer_types"] = list(config.layer_types)
    else:
        described = with_frequencies(parameters, "")
    return json.dumps(described)


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


def run_model(model, capture, ids, decode_steps, num_predictions):
    """Feeds the tokens, then decodes. Returns all tokens, and the predictions after each of the last `num_predictions`
    tokens fed."""
    import torch

    ids = list(ids)
    try:
        with torch.inference_mode():
            # Use a cache only for decoding: it grows with the number of layers.
            step = model(input_ids=torch.tensor([ids], device=model.device), use_cache=decode_steps > 0,
                         logits_to_keep=num_predictions)
            predicted = step.logits[0, -num_predictions:].argmax(-1).tolist()
            for _ in range(decode_steps):
                capture.start = len(ids)
                ids.append(int(step.logits[0, -1].argmax()))
                step = model(input_ids=torch.tensor([ids[-1:]], device=model.device),
                             past_key_values=step.past_key_values, use_cache=True)
    except torch.OutOfMemoryError as error:
        raise DumpError(f"{len(ids)} tokens and the model do not fit into the memory of {model.device}; --max-tokens "
                           "shortens the prompt") from error
    return ids, predicted


def capture_prompt(options, model, config, capture, writer, prompt, tokenized):
    """Runs the model on one prompt and writes its sample. Returns a line of report about it."""
    layers = prompt.layers or options.layers or set(range(config.num_hidden_layers))
    if max(layers) >= config.num_hidden_layers:
        error, where = (InputError, prompt.where) if prompt.layers else (UsageError, "--layers")
        raise error(f"{where}: there is no layer {max(layers)}, the model has {config.num_hidden_layers}")
    ids, positions = choose_queries(options, prompt, tokenized)
    num_tokens = len(ids) + (options.decode or 0)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    if max(ids) >= vocabulary:
        raise InputError(f"{prompt.where}: token {max(ids)} is not in the model's vocabulary of {vocabulary}")
    began = time.monotonic()
    sample = writer.create_sample(prompt.name, prompt.task, num_tokens, positions, tokenized.spans,
                                  tokenized.span_labels, len(tokenized.ids))
    capture.begin_sample(sample, num_tokens, len(tokenized.ids), positions, layers)
    ids, predicted = run_model(model, capture, ids, options.decode or 0, options.answer or 1)
    writer.write_array(sample, "tokens", ids, "<i4")
    if not len(sample["layers"]):
        raise InputError(f"{options.model}: none of the chosen layers calls the library's attention interface")

    captured = {int(layer) for layer in sample["layers"]}
    line = f"{prompt.name}: {num_tokens} tokens, {len(captured)} layers, queries {positions[0]}..{positions[-1]}"
    if captured != layers:
        line += f", left out, no softmax attention: layers {', '.join(map(str, sorted(layers - captured)))}"
    if options.answer:
        right = sum(p == a for p, a in zip(predicted, tokenized.answer))
        line += f", {right} of {options.answer} answer tokens predicted right"
    if num_tokens > (getattr(config, "max_position_embeddings", None) or num_tokens):
        line += f", longer than the model's {config.max_position_embeddings} positions"
    return f"{line}, {time.monotonic() - began:.1f} s"


def provenance(arguments):
    """The command line for the dump's `source` attribute. Paths are cut to their last part."""
    import torch
    import transformers

    names = [re.sub(r"(?:^|(?<==))[~.]*/(?:.*/)?", "", argument.rstrip("/")) for argument in arguments]
    return f"capture.py {shlex.join(names)} (transformers {transformers.__version__}, torch {torch.__version__})"


def capture_all(options, arguments, say):
    prompts = [prompt for path in options.prompts for prompt in read_prompts(path, options.task, options.spans)]
    names = set()
    for prompt in prompts:
        if prompt.name in names:
            raise InputError(f"{prompt.where}: a second sample is named {prompt.name!r}")
        names.add(prompt.name)
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

        folder = pathlib.Path(options.model)
        writer.write_header(model=options.model_name or (folder.resolve().name if folder.is_dir() else options.model),
                            num_layers=config.num_hidden_layers, **capture.geometry,
                            rope=rope_parameters(model, config), source=provenance(arguments),
                            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"))
        size = writer.commit()
    say(f"{output}: {len(prompts)} sample{'s' if len(prompts) > 1 else ''}, {size / 2**20:.1f} MiB")


def main(arguments):
    def command():
        options = parse(arguments)
        capture_all(options, arguments,
                    (lambda line: None) if options.quiet else (lambda line: print(line, file=sys.stderr, flush=True)))
    return run_command("capture.py", "torch, transformers 5 and h5py", command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
