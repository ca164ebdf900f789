"""Prints what a run of ctest skipped and why, and as the last line "N passed, N failed, N skipped". Exit status 1 if
nothing ran or something failed.

    tests/summary.py tests.xml ["N REASON" of tests that ctest was not asked for]...
"""
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


def main(path, left_out):
    passed, failed, skipped = 0, 0, {}
    for case in ElementTree.parse(path).iter("testcase"):
        note = case.find("skipped")
        # Of "skipped" ctest makes also a test whose program is missing: that counts as failed.
        if case.get("status") == "disabled" or note is not None and note.get("message", "").startswith("SKIP_"):
            reason = reason_of(case)
            skipped[reason] = skipped.get(reason, 0) + 1
        elif case.get("status") == "run":
            passed += 1
        else:
            failed += 1
    lines = [*left_out, *(f"{count} {'says' if count == 1 else 'say'}: {reason}" for reason, count in skipped.items())]
    if lines:
        print("Skipped:", *lines, sep="\n  ")
    if passed + failed == 0:
        print("No test ran.")
    total = sum(skipped.values()) + sum(int(line.split()[0]) for line in left_out)
    print(f"{passed} passed, {failed} failed, {total} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
