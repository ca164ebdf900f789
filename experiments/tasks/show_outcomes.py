"""`attest inspect` of an outcomes file: what it is of, and its table; of the folder of unfinished ones how far they are."""
import argparse
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "dumps/python"))
from dump_command import end_process, print_report, run_command  # noqa: E402
from dump_errors import printable  # noqa: E402


def show(path, as_json):
    from outcomes_file import read_outcomes
    from outcomes_table import summarize, table_text

    found = read_outcomes(path)
    summary = summarize(found.runs, found.prompts, found.manifest["answered"])
    if as_json:
        document = {"format": "attest-tasks", "model": found.model, **summary}
        print_report(json.dumps(document, indent=2, ensure_ascii=False))
        return
    print_report(f"{printable(path)}: task outcomes of model '{printable(found.model)}', {len(found.prompts)} prompts, "
                 f"{len(found.runs)} runs, {summary['answered']}\n\n" + table_text(summary).rstrip())


def show_partial(folder, as_json):
    from partial_outcomes import status_of

    status = status_of(folder)
    if as_json:
        print_report(json.dumps(status, indent=2, ensure_ascii=False))
        return
    total = f" of {status['prompts']}" if status["prompts"] is not None else ""
    print_report(f"{printable(folder)}: unfinished task outcomes, begun {printable(status['begun'])} by attest "
                 f"{printable(status['program'])} with model '{printable(status['model'])}'\n"
                 f"{status['finished_prompts']}{total} prompts are finished. The same 'attest tasks' command with "
                 "--resume goes on; --force starts over.")


def main(arguments):
    def command():
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--json", action="store_true")
        parser.add_argument("path")
        options = parser.parse_args(arguments)
        (show_partial if pathlib.Path(options.path).is_dir() else show)(options.path, options.json)
    return run_command("attest", "numpy and h5py", command)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
