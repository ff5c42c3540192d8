"""Lines reached, against Python's own `trace`."""

import ast
import pathlib
import sys
import threading
import trace

import pytest

import pgmjax
from pgmjax.audit import LineCoverage, coverage, report
from pgmjax.privacy import budget as module
from pgmjax.privacy.budget import Budget, BudgetExceeded

FALSE_ALARMS = 0.0  # nothing is drawn

ROOT = pathlib.Path(pgmjax.__file__).parent
FILE = ROOT / "privacy" / "budget.py"


def work():
    budget = Budget(1)
    for part in budget.split([1, 2]):
        budget.charge(part)
    try:
        budget.charge(1)
    except BudgetExceeded:
        return str(budget)
    return None


def lines_of(function, tree):
    node = next(each for each in ast.walk(tree) if getattr(each, "name", None) == function)
    return range(node.body[0].lineno, node.end_lineno + 1)


def test_the_lines_are_those_that_trace_counts():
    counting = trace.Trace(count=1, trace=0)
    counting.runfunc(work)
    counted = {line for (path, line) in counting.results().counts if pathlib.Path(path) == FILE}
    with LineCoverage(["privacy"]) as watch:
        work()
    seen = watch._files[str(FILE)]
    tree = ast.parse(FILE.read_text())
    defs = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    starts = defs | {each.lineno for n in ast.walk(tree) for each in getattr(n, "decorator_list", ())}
    assert seen - starts == counted - starts and len(seen) > 20


def test_functions_that_were_not_reached_are_named():
    with LineCoverage(["privacy", "mechanisms"]) as watch:
        work()
    found = {each.path: each for each in watch.report()}
    budget = found["privacy/budget.py"]
    assert "Budget.statement" in budget.unreached and "Budget.charge" not in budget.unreached
    assert 0 < budget.share < 1 and budget.reached <= budget.lines
    assert found["mechanisms/mwem.py"].reached == 0
    assert "MWEM.plan" in found["mechanisms/mwem.py"].unreached
    text = report.coverage_table([budget])
    assert text.startswith(f"{budget.reached} of {budget.lines} lines") and "Budget.statement" in text
    assert set(found) == {
        path.relative_to(ROOT).as_posix()
        for package in ("privacy", "mechanisms")
        for path in (ROOT / package).rglob("*.py")
    }


def test_declarations_are_no_functions_that_one_could_reach():
    found = {each.path: each for each in LineCoverage(["privacy"]).report()}
    unreached = found["privacy/backend.py"].unreached
    assert "default_backend" in unreached and "NoiseBackend.draw" not in unreached


def test_other_threads_are_watched():
    with LineCoverage(["privacy"]) as watch:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(watch._files[str(FILE)]) > 20


def test_whoever_traced_before_goes_on():
    """A debugger or a coverage tool has its function back."""

    def tracer(frame, event, argument):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with LineCoverage(["privacy"]):
            work()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert threading.gettrace() is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no sys.monitoring")
def test_the_tool_is_given_back():
    free = [sys.monitoring.get_tool(number) for number in range(6)]
    with LineCoverage(["privacy"]):
        assert [sys.monitoring.get_tool(number) for number in range(6)] != free
    assert [sys.monitoring.get_tool(number) for number in range(6)] == free


def test_a_line_that_ran_before_is_seen_again():
    for _ in range(2):
        with LineCoverage(["privacy"]) as watch:
            work()
        tree = ast.parse(FILE.read_text())
        assert set(lines_of("charge", tree)) & watch._files[str(FILE)]
    assert coverage.PACKAGES == ("privacy", "mechanisms") and module.Budget is Budget
