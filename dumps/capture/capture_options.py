"""The command line of capture.py."""
import argparse
import re
import sys

from dump_command import drop_output
from dump_errors import OutputError, UsageError

DESCRIPTION = """\
Runs a Hugging Face decoder on prompts and writes the queries, keys and values of
its attention, exactly as attention multiplies them, to an attention dump.
Llama, Qwen2 and 3, Mistral, Gemma, Phi, GPT-OSS and every other decoder whose
attention is softmax(scale q k) v, with grouped heads, soft-cap, sliding windows
and learned sinks or without; and DeepSeek V2 and V3 in the absorbed form.
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
    question     where the question stands, like a span; capture only checks it
                                                                 (optional)
  Other fields are refused. Any other file is one prompt.

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

    def _print_message(self, message, file=None):  # argparse drops what cannot be written
        try:
            print(message, end="", file=file or sys.stderr, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            drop_output(sys.stdout)
            raise OutputError("cannot write to standard output") from error


def argument(expected):
    """Makes a type for argparse of a function that raises ValueError: its message tells what is expected."""
    def decorate(parse_text):
        def checked(text):
            try:
                return parse_text(text)
            except ValueError:
                raise argparse.ArgumentTypeError(f"'{text}' is not {expected}") from None
        return checked
    return decorate


@argument("a file's name")
def file_name(text):
    if not text:
        raise ValueError
    return text


@argument("a whole number above 0")
def count(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


@argument("a compression level from 1 to 9")
def gzip_level(text):
    if not re.fullmatch("[1-9]", text):
        raise ValueError
    return int(text)


@argument("a list of whole numbers such as 5,10")
def integer_list(text):
    return [int(item) for item in text.split(",")]


@argument("a list of layers such as 0,4,8-11")
def layer_list(text):
    """[(first, last), ...]; "2-" is (2, None), which means up to the model's last layer."""
    if not re.fullmatch(r"\d+(-\d*)?(,\d+(-\d*)?)*", text, re.ASCII):
        raise ValueError
    ranges = []
    for item in text.split(","):
        first, dash, last = item.partition("-")
        ranges.append((int(first), int(last) if last else None if dash else int(first)))
        if last and int(last) < int(first):
            raise ValueError
    return ranges


def chosen_layers(ranges, num_layers):
    """The layer numbers that `ranges` (of layer_list) means for a model of `num_layers` layers."""
    highest = max(first if last is None else last for first, last in ranges)
    if highest >= num_layers:
        raise UsageError(f"--layers: there is no layer {highest}, the model has {num_layers}")
    return {layer for first, last in ranges
            for layer in range(first, num_layers if last is None else last + 1)}


def parse(arguments):
    parser = Parser(prog="capture.py", usage="capture.py MODEL PROMPTS... -o DUMP [options]", description=DESCRIPTION,
                    epilog=EPILOG, add_help=False, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="name on the Hugging Face hub, or folder of a checkpoint")
    parser.add_argument("prompts", metavar="PROMPTS", nargs="+", help="text or .jsonl files")
    parser.add_argument("-o", "--output", metavar="DUMP", required=True, type=file_name, help="the dump to write")

    queries = parser.add_argument_group("which queries (one of these; default --last 4)").add_mutually_exclusive_group()
    queries.add_argument("--last", metavar="N", type=count, help="the last N positions of the prompt")
    queries.add_argument("--positions", metavar="P,...", type=integer_list,
                         help="these positions of the prompt; --positions=-1 counts from its end")
    queries.add_argument("--decode", metavar="N", type=count,
                         help="N decode steps: the queries of the next N tokens, generated greedily")
    queries.add_argument("--answer", metavar="N", type=count,
                         help="the queries that produce the first N tokens of the prompt's known answer: each stands"
                              " one token before, and sees the answer so far")

    what = parser.add_argument_group("what to write")
    what.add_argument("--layers", metavar="LIST", type=layer_list, help="0,4,8-11 or 20-, from 20 on (default: all)")
    what.add_argument("--spans", metavar="FIELD", nargs="?", const="spans",
                      help="demand evidence spans of every prompt, from this field (default: \"spans\", where there)")
    what.add_argument("--task", metavar="NAME", help="task of all prompts, over what the .jsonl says")
    what.add_argument("--model-name", metavar="NAME", help="what the dump calls the model (default: MODEL)")
    what.add_argument("--attention-mass", action="store_true",
                      help="also the attention that each token gets from all of the prompt's queries, for eviction"
                           " methods (costs a second pass of float32 attention)")
    what.add_argument("--gzip", metavar="LEVEL", type=gzip_level, nargs="?", const=4, default=0,
                      help="compress: a tenth to a third smaller, slower to read (1..9, default 4)")
    what.add_argument("--force", action="store_true", help="overwrite the dump if it exists")

    how = parser.add_argument_group("how to run the model")
    how.add_argument("--device", metavar="NAME", default="auto",
                     help="cpu, cuda, cuda:1, or spread: the layers over all GPUs (default: a GPU if there is one)")
    how.add_argument("--dtype", choices=("float16", "bfloat16", "float32"),
                     help="run the model, and write the dump, in this type (default: the checkpoint's)")
    how.add_argument("--chat", action="store_true",
                     help="put each text into the tokenizer's chat template, as the user's")
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
