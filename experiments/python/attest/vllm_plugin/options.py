"""The command line of `attest-vllm`."""
import argparse

from ..base.arguments import Parser
from ..capture.options import add_arguments, add_content_options, add_query_options, add_text_options, settle_queries

DESCRIPTION = """\
Runs vLLM on prompts and writes the queries, keys and values that reach its
attention layers, and what these layers compute, to one attention dump. Prompts
and options are those of attest capture. Options behind -- are vLLM's own.
"""

EPILOG = """\
example:
  attest-vllm meta-llama/Llama-3.1-8B-Instruct prompts.jsonl -o fp8.h5 --layers 0,8,16,24,31 --last 4 --decode 4 \\
      -- --kv-cache-dtype fp8 --tensor-parallel-size 2

exit codes: 0 success, 1 internal error, 2 usage, 4 bad input, 5 output, a missing module or a limit of the machine, 130
  interrupted
"""


def parse(arguments):
    """Our options; what stands behind `--` is left to vLLM."""
    arguments, engine = (arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]) \
        if "--" in arguments else (arguments, [])
    parser = Parser(prog="attest-vllm",
                    usage="attest-vllm MODEL PROMPTS... -o DUMP [options] [-- options of vllm serve]",
                    description=DESCRIPTION, epilog=EPILOG, add_help=False, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    add_query_options(parser)
    add_content_options(parser)
    add_text_options(parser.add_argument_group("how to run the model"))
    options = parser.parse_args(arguments)
    settle_queries(parser, options)
    options.engine = engine
    return options
