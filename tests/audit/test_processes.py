"""Whole commands on neighbours: what is written, said and recorded is the same, and bugs are caught."""

import functools
import json

import numpy as np
import pytest

from pgmjax import audit
from pgmjax.audit import processes
from pgmjax.audit.processes import ProcessCase, audit_processes, replay_process
from pgmjax.audit.replay import CannotAuditError
from pgmjax.cli import main
from pgmjax.mechanisms.base import Mechanism
from pgmjax.privacy.tape import NonInterferenceError
from pgmjax.release import folder as release_folder

CASES = {case.name: case for case in processes.CASES}
QUICK = (
    "marginals, no ledger, to CSV",
    "a session",
    "rows outside are dropped",
    "the budget is exceeded",
    "an answer is refused",
    "bad options",
    "a domain that the account's does not give",
    "an attribute that the account lacks",
    "perturb in a ledger",
)


@pytest.mark.parametrize("name", QUICK)
def test_neighbours_are_told_apart_by_nothing(name):
    assert audit_processes(main, [CASES[name]]) == {name: None}


@pytest.mark.slow
def test_no_case_tells_neighbours_apart():
    found = audit_processes(main)
    assert not any(found.values()), found
    assert set(found) == set(CASES)


@pytest.mark.parametrize("name", ["mst in a ledger", "a session", "perturb", "perturb in a ledger"])
def test_the_noise_is_frozen_and_not_left_out(name):
    tape = replay_process(main, CASES[name])
    noise = [np.any(one != call.exact) for call, one in zip(tape.calls, tape.releases, strict=True)]
    assert noise and any(noise)


def spy(change):
    """A command that does what `change` says, given the lines of the table."""

    def command(argv):
        if argv[0] != "peek" or argv[1] == "--help":
            return 0
        with open(argv[1]) as file:
            return change(argv, file.readlines()) or 0

    return command


def written(argv, lines):
    with open(f"{argv[2]}.json", "w") as file:
        json.dump({"rows": len(lines)}, file)


def named(argv, lines):
    open(f"{argv[2]}-{len(lines)}", "w").close()


SPIES = {
    "the file out.json differs in record['rows']": written,
    "is there for one of two neighbours only": named,
    "the exit code of command 1 differs": lambda argv, lines: len(lines) % 2,
    "the standard output of command 1 differs": lambda argv, lines: print(len(lines)),
}


@pytest.mark.parametrize("said", SPIES)
def test_the_first_difference_is_named_without_a_value(said):
    case = ProcessCase("peek", ["peek {table} {out}"], [0])
    with pytest.raises(NonInterferenceError) as caught:
        replay_process(spy(SPIES[said]), case)
    assert said in str(caught.value) and " 9" not in str(caught.value) and " 10" not in str(caught.value)


def test_a_case_that_ends_otherwise_than_meant_is_told():
    case = ProcessCase("usage", ["release {table} --wrong"], [0])
    with pytest.raises(CannotAuditError, match="ends with 2 instead of 0"):
        replay_process(main, case)


def test_a_command_that_is_not_installed_is_left_out():
    assert audit_processes(main, [ProcessCase("other", ["foretell {table}"], [0])]) == {}


@pytest.mark.parametrize(
    "wrong", [{"neighbours": "far away"}, {"format": "xls"}, {"held": "none"}, {"exits": [0, 0]}]
)
def test_a_case_is_checked(wrong):
    with pytest.raises(ValueError, match=r"neighbours|format|held|exit code"):
        ProcessCase(**{"name": "x", "commands": ["release"], "exits": [0], **wrong})


def test_the_command_prints_the_cases_and_fails_on_a_difference(monkeypatch, capsys):
    cases = [CASES["marginals"], CASES["bad options"]]
    monkeypatch.setattr(audit, "audit_processes", functools.partial(audit_processes, cases=cases))
    assert main(["audit", "--processes", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    names = [each.name for each in cases]
    assert record["passed"] is True and list(record["processes"]) == names
    run, fill, counts = Mechanism.run, release_folder.fill, []

    def counted(self, data, *given, **more):
        counts.append(data.count())
        return run(self, data, *given, **more)

    def telling(folder, *given, **more):
        missing, path = fill(folder, *given, **more), folder / "release.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "records": counts.pop()}))
        return missing

    monkeypatch.setattr(Mechanism, "run", counted)
    monkeypatch.setattr(release_folder, "fill", telling)
    assert main(["audit", "--processes"]) == 1
    said = capsys.readouterr()
    assert "FAILED: With frozen noise the file out/release.json differs in record['records']" in said.out
    assert "bad options" in said.out and said.err
