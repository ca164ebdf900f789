"""Makes prompts of retrieval tasks for a tokenizer, as a .jsonl file for attest capture and attest tasks."""
import argparse
import sys

from ..base.arguments import Parser, count, file_name, whole_number
from ..base.command import end_process, run_command
from ..base.errors import InputError, printable
from ..base.output_check import refuse_inputs
from ..capture.model import pretrained_tokenizer, refuse_missing_folder
from ..capture.prompt_tokens import ByteTokenizer
from .arguments import length_list, task_list, token_id
from .families import TASKS
from .haystack import SOURCES, Haystack
from .make_prompts import make_prompts, write_prompts


def tokenizer_of_prompts(options):
    """A model's, or the bytes of UTF-8."""
    if options.tokenizer == "bytes":
        return ByteTokenizer(options.first_token)
    refuse_missing_folder(options.tokenizer)
    try:
        return pretrained_tokenizer(options.tokenizer, options.revision, options.trust_remote_code)
    except InputError as error:
        raise InputError(f"{error}; name a model with a tokenizer, or 'bytes'") from error


def parse(arguments):
    """The options; UsageError for what cannot be made."""
    parser = Parser(prog="attest prompts", usage="attest prompts TOKENIZER -o FILE.jsonl [options]",
                    description=__doc__,
                    epilog="tasks:\n" + "\n".join(f"  {name:6}{task.meaning}" for name, task in TASKS.items()),
                    add_help=False, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", metavar="TOKENIZER",
                        help="a model on the Hugging Face hub, a checkpoint's folder, or \"bytes\"")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", required=True, type=file_name,
                        help="the file to write")
    parser.add_argument("--tasks", metavar="NAME,...", type=task_list, default=list(TASKS),
                        help="which tasks (default: all)")
    parser.add_argument("--context", metavar="N,...", type=length_list, default=[4096],
                        help="tokens of a prompt, without its answer and a chat template; 4K is 4096 (default 4K)")
    parser.add_argument("--prompts", metavar="N", type=count, default=4,
                        help="prompts of each task and length (default 4)")
    parser.add_argument("--seed", metavar="N", type=whole_number, default=0,
                        help="another seed gives other prompts (default 0)")
    parser.add_argument("--haystack", metavar="PATH", type=file_name, default=SOURCES,
                        help="text file, or folder of text and sources, to hide lines in"
                             " (default: this program's sources)")
    parser.add_argument("--first-token", metavar="ID", type=token_id,
                        help="of \"bytes\": the model's beginning-of-text token")
    parser.add_argument("--revision", metavar="REV", help="branch, tag or commit on the hub")
    parser.add_argument("--trust-remote-code", action="store_true", help="let the tokenizer bring its own code")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    parser.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser.parse_args(arguments)


def main(arguments):
    """Returns the exit code."""
    def command():
        options = parse(arguments)
        refuse_inputs(options.output, [options.haystack])
        haystack = Haystack.read(options.haystack)
        tokenizer = tokenizer_of_prompts(options)
        prompts = make_prompts(options.tasks, options.context, options.prompts, tokenizer, haystack, options.seed)
        written = write_prompts(options.output, prompts, options.force)
        print(f"{printable(options.output)}: {written} prompts", file=sys.stderr)
    return run_command("attest", "transformers 5", command)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
