"""The command line of `attest capture`."""
import argparse
import re

from ..base.arguments import Parser, argument, count, file_name, layer_list

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
  attest capture meta-llama/Llama-3.1-8B-Instruct book.txt -o book.h5

  # 8 generated steps of every prompt of a benchmark, every eighth layer
  attest capture Qwen/Qwen3-8B ruler.jsonl -o ruler.h5 --chat --decode 8 --layers 0,8,16,24

  # the four queries that produce the start of a known answer, on a GPU
  attest capture ./checkpoint needles.jsonl -o needles.h5 --answer 4 --spans --device cuda

exit codes: 0 success, 2 usage, 4 bad input, 5 output or a missing module, 130 interrupted
"""


@argument("a compression level from 1 to 9")
def gzip_level(text):
    if not re.fullmatch("[1-9]", text):
        raise ValueError
    return int(text)


@argument("a list of whole numbers such as 5,10")
def integer_list(text):
    return [int(item) for item in text.split(",")]


def parse(arguments):
    parser = Parser(prog="attest capture", usage="attest capture MODEL PROMPTS... -o DUMP [options]",
                    description=DESCRIPTION, epilog=EPILOG, add_help=False, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="name on the Hugging Face hub, or folder of a checkpoint")
    parser.add_argument("prompts", metavar="PROMPTS", nargs="+", help="text or .jsonl files")
    parser.add_argument("-o", "--output", metavar="DUMP", required=True, type=file_name, help="the dump to write")

    queries = parser.add_argument_group("which queries (default --last 4; --decode may stand with --last, else one of these)")
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
    what.add_argument("--attention-mass", metavar="N", type=count, nargs="?", const=True,
                      help="also the attention that each token gets from the prompt's last N queries, its observation"
                           " window (default: from all, which costs a second pass of float32 attention), for eviction"
                           " methods")
    what.add_argument("--attention-output", action="store_true",
                      help="also what the model's own attention gave for the queries, for 'attest audit'")
    what.add_argument("--head-weights", action="store_true",
                      help="also what each head's output means for the answer: gradients of the margin of the known"
                           " token, or of the model's own, in float32, checked by finite differences (costs about two"
                           " more passes, and weights in float32)")
    what.add_argument("--output-gradients", action="store_true",
                      help="with them, the gradients themselves, at outputs scaled by 1, 0.75, 0.5 and 0.25")
    what.add_argument("--gzip", metavar="LEVEL", type=gzip_level, nargs="?", const=4, default=0,
                      help="compress: a tenth to a third smaller, slower to read (1..9, default 4)")
    what.add_argument("--force", action="store_true", help="overwrite the dump if it exists")
    what.add_argument("--resume", action="store_true",
                      help="keep finished prompts in the folder DUMP.partial until all are, and go on with what is there")

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
    given = [name for name in ("last", "positions", "decode", "answer") if getattr(options, name)]
    if len(given) > 1 and given != ["last", "decode"]:
        parser.error(f"argument --{given[1]}: not allowed with argument --{given[0]}")
    if not given:
        options.last = 4
    options.head_weights |= options.output_gradients
    return options
