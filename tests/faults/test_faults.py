"""Each seeded fault finds its place once and changes the code, whatever the local names and the layout."""

import ast
import collections
import functools

import pytest

from tests.faults.run import FAULTS, ROOT, changed, modules, mutants, trees

SOURCE = '''
class Account:
    def charge(self, cost, cap):
        """Charge."""
        total = self.spent + cost  # what it would be
        if total > cap:
            raise ValueError("too much")
        self.spent = total
'''
RENAMED = """
class Account:
    def charge(this, price, most):
        s = (this.spent +
             price)
        if s > most:
            raise ValueError("more than there is")
        this.spent = s
"""


def test_names_are_unique():
    counts = collections.Counter(fault.name for fault in FAULTS)
    assert not [name for name, count in counts.items() if count > 1]


def test_each_fault_finds_its_place_once_and_changes_the_code():
    lost = []
    for fault in FAULTS:
        try:
            compile(changed(fault), fault.name, "exec")
        except trees.PlaceError as error:
            lost.append(f"{fault.name}: {error}")
    assert not lost, "\n".join(lost)


def test_each_fault_names_tests_that_are_there():
    named = functools.cache(
        lambda file: {getattr(node, "name", None) for node in ast.walk(ast.parse((ROOT / file).read_text()))}
    )
    for fault in FAULTS:
        assert fault.tests, fault.name
        for test in fault.tests:
            file, *inside = test.split("::")
            assert {*inside} <= named(file), f"{fault.name}: {test} is not there"


@pytest.mark.parametrize("source", [SOURCE, RENAMED])
def test_local_names_layout_and_messages_play_no_part(source):
    new = trees.changed(source, "Account.charge", "if total > cap:\n    ...", "if total >= cap:\n    ...")
    bare = trees.changed(source, "Account.charge", "total = self.spent + cost", "total = self.spent - cost")
    assert new.count("s >= most" if source is RENAMED else "total >= cap") == 1 and "raise ValueError" in new
    assert ("this.spent - price" if source is RENAMED else "self.spent - cost") in bare


@pytest.mark.parametrize(
    "function, old, said",
    [
        ("Account.charge", "total", r"stands \d times"),
        ("Account.charge", "total >= cap", "stands 0 times in the function"),
        ("Account.charge", "sum(total)", "stands 0 times in the function"),
        ("Account.pay", "total < cap", "stands 0 times in all functions"),
        ("Account.charge", "total > total", "stands 0 times"),
    ],
)
def test_a_piece_that_is_not_there_once_is_reported(function, old, said):
    with pytest.raises(trees.PlaceError, match=said):
        trees.changed(SOURCE, function, old, "False")


def test_a_function_by_another_name_holds_the_piece_all_the_same():
    piece = "if total > cap:\n    ...", "if total >= cap:\n    ..."
    assert trees.changed(SOURCE, "Account.pay", *piece) == trees.changed(SOURCE, "Account.charge", *piece)


def test_a_change_of_nothing_is_reported():
    with pytest.raises(trees.PlaceError, match="changes nothing"):
        trees.changed(SOURCE, "Account.charge", "total > cap", "(total) > cap")


def test_a_new_piece_of_names_that_are_gone_is_reported():
    with pytest.raises(trees.PlaceError, match="'limit'"):
        trees.changed(SOURCE, "Account.charge", "total > cap", "total > limit")


def test_random_mutants_follow_from_the_seed_and_change_behaviour_alone():
    files = modules(["measurements"])
    one, same, other = (list(mutants.drawn(files, 12, seed)) for seed in (1, 1, 2))
    assert one == same != other
    for mutant in one:
        before = ast.unparse(trees.parse(files[mutant.module].read_text()))
        assert mutant.text != before and compile(mutant.text, mutant.name, "exec")
    kinds = {kind for _, _, kind, *_ in mutants.sites(trees.parse(SOURCE))}
    assert kinds == {"operator", "condition", "removed"}
