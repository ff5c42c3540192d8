"""Which cases of long tests run by default: as many of a test as take a few seconds; the others are slow.

    python -m pytest -m 'not docs' --durations=0 --durations-min=0.02 >all.txt    every case of every test
    python tests/thinned.py all.txt                                             writes tests/seconds.txt anew

The cases that run by default are drawn by their names, so that they meet all values of each parameter in the
same way in every run. Whoever names a test runs all of its cases.
"""

import collections
import hashlib
import pathlib
import re
import sys

import pytest

SECONDS = pathlib.Path(__file__).with_name("seconds.txt")
OF_A_TEST = 1.5
"""Seconds that the cases of one test take by default, together, as measured on a busy machine."""
OF_A_CASE = 5.0
"""Seconds of a case from which it runs with the slow tests only."""


def thin(config, items):
    """Mark as slow what does not run by default."""
    if any("::" in word for word in config.args):
        return
    tests = collections.defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    for line in SECONDS.read_text().splitlines():
        each, name = line.split(maxsplit=1)
        cases = sorted(tests.get(name, ()), key=lambda item: hashlib.sha1(item.nodeid.encode()).digest())
        kept = 0 if float(each) > OF_A_CASE else max(1, int(OF_A_TEST / float(each)))
        for item in cases[kept:]:
            item.add_marker(pytest.mark.slow)


def measured(printed):
    """Return the mean seconds of a case of every test of which not all run, from what pytest printed."""
    cases = collections.defaultdict(float)
    for seconds, case in re.findall(
        r"^ *([\d.]+)s (?:call|setup|teardown) +(\S.*?) *$", printed, re.MULTILINE
    ):
        cases[case] += float(seconds)
    tests = collections.defaultdict(list)
    for case, seconds in cases.items():
        tests[case.partition("[")[0]].append(seconds)
    return {
        name: sum(each) / len(each)
        for name, each in tests.items()
        if sum(each) / len(each) > OF_A_CASE or (len(each) > 1 and sum(each) > OF_A_TEST)
    }


if __name__ == "__main__":
    found = measured(pathlib.Path(sys.argv[1]).read_text())
    SECONDS.write_text("".join(f"{found[name]:.2f} {name}\n" for name in sorted(found)))
