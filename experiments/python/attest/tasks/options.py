"""The options of `attest tasks`. The program (experiments/commands/tasks.cpp) has parsed selectors and grids, and
hands them over in --request; `attest tasks --help` describes the others."""
import json

from ..base.arguments import Parser, argument, count, file_name, layer_list, whole_number
from ..base.errors import UsageError
from ..prompts.arguments import length_list, prompts_of, task_list, token_id
from ..prompts.haystack import SOURCES

DEFAULT_PROMPTS = 4


@argument("float16, bfloat16 or float32")
def model_type(text):
    """Parses the name of a type in which the model may run."""
    if text not in ("float16", "bfloat16", "float32"):
        raise ValueError
    return text


def make_parser():
    """Options as the program hands them over."""
    parser = Parser(prog="attest tasks", add_help=False, allow_abbrev=False)

    def add(name, **options):
        parser.add_argument(name, **options)

    add("--request", type=json.loads, required=True)
    add("--model", required=True)
    add("--output", required=True, type=file_name)
    add("--tasks", type=task_list)
    add("--context", type=length_list)
    add("--prompts", type=prompts_of, default=DEFAULT_PROMPTS)
    add("--haystack", type=file_name)
    add("--seed", type=whole_number, default=0)
    add("--layers", type=layer_list)
    add("--forced", action="store_true")
    add("--max-new-tokens", type=count)
    add("--dump", type=file_name)
    add("--dump-queries", type=count)
    add("--dump-layers", type=layer_list)
    add("--model-name")
    add("--tokenizer")
    add("--first-token", type=token_id)
    add("--dtype", type=model_type)
    add("--device", default="auto")
    add("--revision")
    for flag in ("--head-weights", "--output-gradients", "--chat", "--trust-remote-code", "--resume", "--force",
                 "--quiet", "--json"):
        add(flag, action="store_true")
    add("--threads", type=count, default=1)
    return parser


def parse(arguments):
    """The options, checked against each other."""
    return checked(make_parser().parse_args(arguments))


def checked(options):
    """Refuses options that have no use beside the others, and fills in the defaults of those that have."""
    if isinstance(options.prompts, str):
        for name in ("tasks", "context", "haystack"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} is for prompts that are made, and --prompts names the file "
                                 f"{options.prompts}")
    elif options.haystack is None:
        options.haystack = SOURCES
    if options.forced and options.max_new_tokens:
        raise UsageError("--max-new-tokens is of answers that are decoded, and --forced feeds the known ones")
    for name in ("dump_queries", "dump_layers", "head_weights", "output_gradients"):
        if getattr(options, name) and not options.dump:
            raise UsageError(f"--{name.replace('_', '-')} is of --dump, which is not given")
    options.head_weights |= options.output_gradients
    if options.first_token is not None and options.tokenizer != "bytes":
        raise UsageError("--first-token is of --tokenizer bytes")
    return options
