"""Prints what a run of ctest skipped and why, and as the last line "N passed, N failed, N skipped". Exit status 1 if
nothing ran or something failed.

    tests/summary.py tests.xml ["N REASON" of tests that ctest was not asked for]...

To ctest a script of pytest is one test, and so is a suite of GoogleTest on a GPU. Their own tests are counted where
their report is there, reports/NAME.xml beside tests.xml: some of them may be skipped.
"""
import ast
import collections
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

# pytest -rs, GoogleTest ("file:line: Skipped", then the message), a shell test
REASON = re.compile(r"^SKIPPED \[\d+\] \S+: (.*)|: Skipped\n(.+)|^skipped: (.*)", re.MULTILINE)


def reason_of(case):
    if case.get("status") == "disabled":
        return "disabled"
    found = REASON.search(case.findtext("system-out") or "")
    return next(filter(None, found.groups())) if found else "no reason given"


def own_reason(note, by_google):
    """GoogleTest's message begins with the line "FILE:LINE"; a module that pytest skips as a whole has (file, line,
    "Skipped: " and the reason) as its text."""
    if by_google:
        return " ".join(note.get("message").split("\n")[1:]) or "no reason given"
    if note.get("message") != "collection skipped":
        return note.get("message")
    return ast.literal_eval(note.text)[2].removeprefix("Skipped: ")


def own_counts(path):
    """(passed, failed, {reason: skipped}) of a script or suite; None without its report, as of one that was killed."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    cases = [case for case in root.iter("testcase") if case.get("status") != "notrun"]  # DISABLED_ ones of GoogleTest
    by_google = root.get("name") == "AllTests"
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = collections.Counter(own_reason(note, by_google) for case in cases for note in case.findall("skipped"))
    return len(cases) - failed - skipped.total(), failed, skipped


def counts(case, reports):
    """The same of a test of ctest."""
    note = case.find("skipped")
    # Of "skipped" ctest makes also a test whose program is missing: that counts as failed.
    is_skipped = case.get("status") == "disabled" or note is not None and note.get("message", "").startswith("SKIP_")
    is_failed = not is_skipped and case.get("status") != "run"
    found = own_counts(os.path.join(reports, f"{case.get('name')}.xml"))
    if found is None or is_failed and not found[1]:  # such as pytest itself that fails
        return not is_skipped and not is_failed, is_failed, {reason_of(case): 1} if is_skipped else {}
    return found


def main(path, left_out):
    passed, failed, skipped = 0, 0, collections.Counter()
    for case in ElementTree.parse(path).iter("testcase"):
        more_passed, more_failed, more_skipped = counts(case, os.path.join(os.path.dirname(path), "reports"))
        passed, failed = passed + more_passed, failed + more_failed
        skipped.update(more_skipped)
    lines = [*left_out, *(f"{count} {'says' if count == 1 else 'say'}: {reason}" for reason, count in skipped.items())]
    if lines:
        print("Skipped:", *lines, sep="\n  ")
    if passed + failed == 0:
        print("No test ran.")
    total = skipped.total() + sum(int(line.split()[0]) for line in left_out)
    print(f"{passed} passed, {failed} failed, {total} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
