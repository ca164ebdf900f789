"""The command line of `attest capture`."""
import argparse
import re

from ..base.arguments import Parser, argument, count, file_name, layer_list, whole_number

CACHE_TYPES = ("f16", "bf16", "f32", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1")
OF_HUGGING_FACE = ("attention_mass", "head_weights", "output_gradients", "device", "dtype", "chat", "revision",
                   "trust_remote_code")
OF_LLAMA_CPP = ("cache_type_k", "cache_type_v", "flash_attn", "gpu_layers", "no_kv_offload", "batch_size", "threads")
DESCRIPTION = """\
Runs a Hugging Face decoder on prompts and writes the queries, keys and values of
its attention, exactly as attention multiplies them, to an attention dump.
Llama, Qwen2 and 3, Mistral, Gemma, Phi, GPT-OSS and every other decoder whose
attention is softmax(scale q k) v, with grouped heads, soft-cap, sliding windows
and learned sinks or without; and DeepSeek V2 and V3 in the absorbed form.
A .gguf file is run by llama.cpp, and what its attention gives is written, too.
"""

EPILOG = """\
prompts:
  A .jsonl file holds one prompt per line, an object with the fields
    text         the prompt; or "tokens", a list of token ids
    task, name   what it is, and what its sample is called    (both optional)
    document     the text that it was made of, where several prompts share one:
                 attest validate --cluster document           (optional)
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

  # what llama.cpp's attention computes with a quantised cache
  attest capture model.gguf needles.jsonl -o q8.h5 --last 4 --decode 4 -ctk q8_0 -ctv q8_0

  # the four queries that produce the start of a known answer, on a GPU
  attest capture ./checkpoint needles.jsonl -o needles.h5 --answer 4 --spans --device cuda

exit codes: 0 success, 1 internal error, 2 usage, 4 bad input, 5 output, a missing module or a limit of the machine, 130
  interrupted
"""


@argument("a compression level from 1 to 9")
def gzip_level(text):
    """Parses a level from 1 to 9."""
    if not re.fullmatch("[1-9]", text):
        raise ValueError
    return int(text)


@argument("a list of whole numbers such as 5,10")
def integer_list(text):
    """Parses a list of whole numbers, "0,-1"."""
    if not re.fullmatch("-?[0-9]+(,-?[0-9]+)*", text):
        raise ValueError
    return [int(item) for item in text.split(",")]


def add_arguments(parser, model="name on the Hugging Face hub, or folder of a checkpoint"):
    """Positional ones and the output, which attest-vllm shares."""
    parser.add_argument("model", metavar="MODEL", help=model)
    parser.add_argument("prompts", metavar="PROMPTS", nargs="+", help="text or .jsonl files")
    parser.add_argument("-o", "--output", metavar="DUMP", required=True, type=file_name, help="the dump to write")


def add_query_options(parser):
    """Which positions become queries of the dump."""
    queries = parser.add_argument_group(
        "which queries (default --last 4; --decode may stand with --last, else one of these)")
    queries.add_argument("--last", metavar="N", type=count, help="the last N positions of the prompt")
    queries.add_argument("--positions", metavar="P,...", type=integer_list,
                         help="these positions of the prompt; --positions=-1 counts from its end")
    queries.add_argument("--decode", metavar="N", type=count,
                         help="N decode steps: the queries of the next N tokens, generated greedily")
    queries.add_argument("--answer", metavar="N", type=count,
                         help="the queries that produce the first N tokens of the prompt's known answer: each stands"
                              " one token before, and sees the answer so far")


def add_content_options(parser):
    """Returns their group."""
    what = parser.add_argument_group("what to write")
    what.add_argument("--layers", metavar="LIST", type=layer_list, help="0,4,8-11 or 20-, from 20 on (default: all)")
    what.add_argument("--spans", metavar="FIELD", nargs="?", const="spans",
                      help="demand evidence spans of every prompt, from this field (default: \"spans\", where there)")
    what.add_argument("--task", metavar="NAME", help="task of all prompts, over what the .jsonl says")
    what.add_argument("--model-name", metavar="NAME", help="what the dump calls the model (default: MODEL)")
    what.add_argument("--gzip", metavar="LEVEL", type=gzip_level, nargs="?", const=4, default=0,
                      help="compress: a tenth to a third smaller, slower to read (1..9, default 4)")
    what.add_argument("--force", action="store_true", help="overwrite the dump if it exists")
    what.add_argument("--resume", action="store_true",
                      help="keep finished prompts in the folder DUMP.partial until all are, and go on with what is"
                           " there")
    return what


def add_text_options(group):
    """How text becomes tokens, and what the model may load."""
    group.add_argument("--chat", action="store_true",
                       help="put each text into the tokenizer's chat template, as the user's")
    group.add_argument("--max-tokens", metavar="N", type=count, help="cut prompts after N tokens")
    group.add_argument("--tokenizer", metavar="NAME",
                       help="another tokenizer; \"bytes\": the UTF-8 bytes, after the model's first token if it has"
                            " one")
    group.add_argument("--revision", metavar="REV", help="branch, tag or commit on the hub")
    group.add_argument("--trust-remote-code", action="store_true", help="let the checkpoint bring its own code")
    group.add_argument("--quiet", action="store_true", help="no progress")
    group.add_argument("-h", "--help", action="help", help="show this and exit")


def add_llama_options(parser):
    """Those that say how llama.cpp caches; the names are its own."""
    llama = parser.add_argument_group("a .gguf file, which llama.cpp runs; names as there")
    llama.add_argument("-ctk", "--cache-type-k", choices=CACHE_TYPES, default="f16", metavar="TYPE",
                       help=f"type of the cached keys: {', '.join(CACHE_TYPES)} (default: f16)")
    llama.add_argument("-ctv", "--cache-type-v", choices=CACHE_TYPES, default="f16", metavar="TYPE",
                       help="that of the cached values (default: f16)")
    llama.add_argument("-fa", "--flash-attn", choices=("on", "off", "auto"), default="auto", help="(default: auto)")
    llama.add_argument("-ngl", "--gpu-layers", metavar="N", type=whole_number, default=0,
                       help="layers on a GPU (default: none)")
    llama.add_argument("-nkvo", "--no-kv-offload", action="store_true", help="keep the cache in the processor's memory")
    llama.add_argument("-b", "--batch-size", metavar="N", type=count, default=512,
                       help="tokens per pass (default: 512)")
    llama.add_argument("-t", "--threads", metavar="N", type=count, help="(default: one per core)")


def settle_queries(parser, options):
    """Refuses options about queries that contradict each other, and fills in the default."""
    given = [name for name in ("last", "positions", "decode", "answer") if getattr(options, name)]
    if len(given) > 1 and given != ["last", "decode"]:
        parser.error(f"argument --{given[1]}: not allowed with argument --{given[0]}")
    if not given:
        options.last = 4


def parse(arguments):
    """The options; UsageError where two of them do not go together."""
    parser = Parser(prog="attest capture", usage="attest capture MODEL PROMPTS... -o DUMP [options]",
                    description=DESCRIPTION, epilog=EPILOG, add_help=False, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, "name on the Hugging Face hub, folder of a checkpoint, or a .gguf file")
    add_query_options(parser)
    what = add_content_options(parser)
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

    add_llama_options(parser)
    how = parser.add_argument_group("how to run the model")
    how.add_argument("--device", metavar="NAME", default="auto",
                     help="cpu, cuda, cuda:1, or spread: the layers over all GPUs (default: a GPU if there is one)")
    how.add_argument("--dtype", "--element-type", choices=("float16", "bfloat16", "float32"),
                     help="run the model, and write the dump, in this type (default: the checkpoint's)")
    add_text_options(how)
    options = parser.parse_args(arguments)
    settle_queries(parser, options)
    options.head_weights |= options.output_gradients
    options.gguf = options.model.endswith(".gguf")
    for name in OF_HUGGING_FACE if options.gguf else OF_LLAMA_CPP:
        if getattr(options, name) != parser.get_default(name):
            parser.error(f"argument --{name.replace('_', '-')}: is for a "
                         f"{'model of Hugging Face' if options.gguf else '.gguf file'}, not for {options.model}")
    if options.gguf and options.tokenizer not in (None, "bytes"):
        parser.error("argument --tokenizer: a .gguf file has its own; only \"bytes\" may stand for it")
    return options
