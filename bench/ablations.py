"""What each search, oracle and threshold wins: with it and without it, on real and on generated structures.

    PGMJAX_DATA=... python bench/ablations.py                 # measures all and writes docs/lab/ablations.md
    PGMJAX_DATA=... python bench/ablations.py "local search"  # prints the rows whose name has these words

A row of `ROWS` names what can be left out, the structures on which that is tried, and a function that
switches it off while a figure is taken. The figure is a cost, so a ratio over 1 is what is lost without it.
What loses less than 1.3 on every case goes; what went stands in `GONE`, with the figure by which it went.
Costs are forecasts, which do not depend on the machine; CPU seconds are medians of three. To add a row,
append to `ROWS`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import cases
import frozen
import harness
import networks_made
import numpy as np
import opt_einsum

from pgmjax.inference import oracles
from pgmjax.inference.oracles import choose
from pgmjax.inference.oracles.contraction import HostContraction
from pgmjax.inference.plan import (
    chain,
    contraction,
    elimination,
    growth,
    junction_tree,
    levels,
    merges,
    slicing,
)
from pgmjax.inference.plan.contraction import of_path
from pgmjax.inference.plan.forecast import Forecast, ModelTooLargeError
from pgmjax.inference.plan.structure import Structure

ENOUGH = 1.3  # times the cost without it, on one case at least: less, and it goes
PAGE = harness.ROOT / "docs" / "lab" / "ablations.md"
FITS = ("fit-adult9", "fit-loans15", "loop-adult", "oracle-adult15-s0", "oracle-adult15-s1", "oracle-loans15")
LONG = ("oracle-chain-1000", "oracle-tree-500")
MADE = ("loops-60x90-0", "pedigree-60x10-1", "diagnosis-20x40-0", "grid-16x16")
FROZEN = tuple(f"frozen-{seed}" for seed in range(0, 40, 4))
Figure = Callable[[Structure], float | np.ndarray]


@dataclasses.dataclass(frozen=True)
class Row:
    """Something that can be left out.

    Attributes:
        name: what it is.
        instead: what happens without it.
        unit: of the figure.
        figure: the cost on a structure; smaller is better.
        without: switches it off while it is entered.
        names: the structures.
    """

    name: str
    instead: str
    unit: str
    figure: Figure
    without: Callable[[], contextlib.AbstractContextManager[Any]]
    names: tuple[str, ...]


@functools.cache
def structure(name: str) -> Structure:
    """A structure by name: of `cases.py`, of `networks_made.py`, or of a plan of `frozen.py`."""
    if name.startswith("frozen-"):
        return frozen.structure(int(name.removeprefix("frozen-")))
    if name in MADE:
        sizes, factors = networks_made.made()[name]()
        return Structure(tuple(sizes), tuple(tuple(map(int, scope)) for scope, _ in factors))
    case = cases.load(name)
    return Structure.named(case.sizes, case.cliques)[0]


def fresh() -> None:
    """Forget plans, so that each figure is of a plan made anew."""
    for known in (contraction._plan, slicing.plan, elimination.found, elimination._searched):
        getattr(known, "cache_clear", lambda: None)()


def work(model: Structure) -> float:
    """Weight of the products of a contraction."""
    return contraction.weight(contraction.plan(model), contraction.STORED)


def planning(model: Structure) -> float:
    """CPU seconds to plan a contraction."""
    return _seconds(lambda: contraction.plan(model))


def choosing(model: Structure) -> float:
    """CPU seconds to choose an oracle for 500 calls."""
    return _seconds(lambda: plan(model, calls=500))


def plan(model: Structure, **settings: Any) -> oracles.Plan:
    """A plan in 20 GB."""
    names = tuple(f"v{v}" for v in range(len(model.sizes)))
    return oracles.plan(model, names, max_bytes=2 * 10**10, **settings)


def _seconds(call: Callable[[], Any]) -> float:
    found = []
    for _ in range(3):
        fresh()
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return statistics.median(found)


def sliced(model: Structure, share: float) -> float:
    """Forecast seconds of slices in a share of the memory that one contraction takes beyond its inputs."""
    inputs = 2 * sum(map(model.cells, model.cliques))
    cells = inputs + share * (of_path(contraction.plan(model)).peak - inputs)
    try:
        with replaced((slicing, "MAX_WORK", 10**11)):
            return slicing.plan(model, int(4 * cells)).cost.seconds()
    except ModelTooLargeError:
        return float("inf")


def grown(model: Structure) -> np.ndarray:
    """Cells of a model with one more clique, for 600 pairs and triples."""
    variables = range(len(model.sizes))
    several = [*itertools.combinations(variables, 2), *itertools.combinations(variables, 3)]
    chosen = np.random.default_rng(0).permutation(len(several))[:600]
    return np.array(growth.Growth(model).cells_of(several[i] for i in chosen), float)


def called(model: Structure) -> float:
    """CPU seconds of a call of the chosen compiled oracle."""
    made = plan(model, calls=500, compiled=True)
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=shape).astype(np.float32) for shape in model.shapes]
    made.infer(tables)  # compiles
    return _seconds(lambda: made.infer(tables))


def launches(model: Structure) -> float:
    """Kernels of a call on a card, counted: of cliques in a row if that is shorter."""
    found = levels.arrange(model).forecast.kernels
    with contextlib.suppress(ModelTooLargeError):
        found = min(found, chain.arrange(model).forecast.kernels)
    return found


def call_seconds(model: Structure) -> float:
    """Forecast seconds of the chosen oracle, compiling and 500 calls included."""
    return plan(model, calls=500).seconds


@contextlib.contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes have other values while this is entered."""
    with contextlib.ExitStack() as stack:
        for holder, name, value in changes:
            stack.enter_context(mock.patch.object(holder, name, value))
        yield


def off(*changes: tuple[Any, str, Any]) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """What `Row.without` asks for."""
    return lambda: replaced(*changes)


def _greedy(model: Structure, last: Any = (), calls: float = 1, longest: float = 0) -> Any:
    return tuple(junction_tree.eliminate(model, rule, last) for rule in junction_tree.RULES)


def _best(paths: Any, stored: float) -> Any:
    best = min(paths, key=lambda path: contraction.weight(path, stored))
    return best.merges, best.method


def _by_opt_einsum(
    tables: Any, outside: Any, sizes: Any, stored: float, bound: float, max_pairs: int = 0
) -> Any:
    """opt_einsum's dynamic programming by the same costs, in place of ours."""
    find = opt_einsum.paths.DynamicProgramming(minimize=f"combo-{stored:.0f}", cost_cap=bound)
    used = frozenset().union(*tables)
    path = find(list(tables), outside & used, {v: sizes[v] for v in used})
    found = opt_einsum.paths.linear_to_ssa(path)
    weight = merges._Tree(tables, outside, sizes, found, stored).total()
    return (weight, found) if weight < bound else None


def _taken_alone(model: Structure) -> Any:
    raise ModelTooLargeError("no cliques in a row")


FAR_TOO_LARGE = Forecast("", 0, 0, 2**60, 0, ())
NOTHING: Callable[..., list[Any]] = lambda *given: []  # noqa: E731
ALL = (*FITS, *MADE, *FROZEN)
BY_DP = off(*((each, "optimal_merges", _by_opt_einsum) for each in (contraction, merges)))
MUCH, LITTLE = (functools.partial(sliced, share=share) for share in (0.9, 0.1))
ROWS = (
    Row("local search for elimination orders", "the greedy rules", "work", work,
        off((elimination, "found", _greedy)), (*ALL, "oracle-loops-200")),
    Row("opt_einsum's path as a start", "elimination orders alone", "work", work,
        off((contraction, "OPT_EINSUM_TABLES", 0)), ALL),
    Row("exhaustive and local search over merges", "the best start", "work", work,
        off((contraction, "improved", _best)), ALL),
    Row("local search over merges", "exhaustive search alone", "work", work,
        off((contraction, "_refined", lambda path, stored: path)), ALL),
    Row("our exhaustive search: its plans", "opt_einsum's dynamic programming", "work", work, BY_DP, ALL),
    Row("our exhaustive search: its time", "opt_einsum's dynamic programming", "CPU s", planning, BY_DP,
        ("oracle-adult15-s0", "oracle-adult15-s1", "diagnosis-20x40-0")),
    Row("slices by paths that store less", "paths by the usual cost", "forecast s", MUCH,
        off((slicing, "_STORED", slicing._STORED[:1])), FITS),
    Row("slices' path planned again", "the path of the whole", "forecast s", LITTLE,
        off((slicing._Search, "run", lambda self, whole: [
            self.widened(self.narrowed(self.sliced(whole, {})))])), (*FITS, "oracle-loops-150")),
    Row("slicing undone where it is unnecessary", "kept", "forecast s", LITTLE,
        off((slicing._Search, "widened", lambda self, now: now)), (*FITS, "oracle-loops-150")),
    Row("growth: a part eliminated again", "variables are carried", "cells, at worst", grown,
        off((growth.Growth, "refilled", NOTHING)), (*FITS, "diagnosis-20x40-0")),
    Row("growth: a narrow separator carried instead", "variables are carried", "cells, at worst", grown,
        off((growth.Growth, "detour", NOTHING)), (*FITS, "diagnosis-20x40-0")),
    Row("cliques in a row off a CPU", "levels", "launches", launches,
        off((chain, "arrange", _taken_alone)), (*LONG, "fit-chain-300", "oracle-chain-100")),
    Row("no contraction planned for many cliques", "always planned", "CPU s", choosing,
        off((choose, "MOST_PLANNED_CLIQUES", 10**9)), LONG),
    Row("levels considered", "never", "forecast s", call_seconds,
        off((choose, "_arranged", lambda model: None)), ("fit-chain-300", "oracle-tree-300", *FITS)),
    Row("NumPy considered", "never", "forecast s", call_seconds,
        off((HostContraction, "forecast", FAR_TOO_LARGE)), FITS),
    Row("slices in a CPU's cache", "one contraction", "CPU s", called,
        off((choose, "CACHE_BYTES", 10**15)), ("oracle-adult15-s1", "oracle-adult15-s2")),
)  # fmt: skip
GONE = (
    (
        "rates measured on the user's machine, kept in her home folder",
        "built-in rates",
        "82 plans: 41 structures, for 20 and 500 calls",
        "the same oracle in 82",
    ),
    (
        "a calibrated tree's sums by runs of axes, its cliques' own variables apart",
        "NumPy's sums over axes",
        "all pairs of ten structures",
        "1.14 and 1.03 times the CPU seconds, at most",
    ),
    (
        "einsum for many small products on the host, products of one term apart",
        "BLAS alone",
        "marginals of 19 structures",
        "0.78 to 1.08 times the CPU seconds",
    ),
    (
        "the maps of levels inverted in chunks",
        "at once",
        "oracle-tree-500, oracle-chain-1000, loop-adult, diagnosis-20x40-0, frozen-20",
        "0.77 to 1.09 times the CPU seconds",
    ),
    (
        "evidence contracted in logarithms",
        "masked tables, multiplied by BLAS",
        "fit-adult9, oracle-chain-100, oracle-tree-300, diagnosis-20x40-0",
        "0.43 to 0.68 times the CPU seconds",
    ),
    (
        "wide tiles of a log product stored before they are summed",
        "summed as they are made",
        "14 shapes of products",
        "0.9 to 1.05 times the CPU seconds",
    ),
)
TRIED = (
    (
        "one growing forest: the triangulation prices candidates too",
        "`plan.growth`",
        "pairs beside oracle-adult15-s0; triples beside fit-loans15",
        "up to 35 and 79 times the cells; 14 % of candidates over 1.3 in both",
    ),
    (
        "one greedy elimination for orders and for parts of a growing forest",
        "`growth._eliminated`, on bits",
        "1,200 candidates beside oracle-adult15-s1, fit-loans15, frozen-3",
        "the same cells in 1.9, 1.4 and 1.6 times the CPU seconds",
    ),
    (
        "level trees rooted at a clique instead of a separator that is peeled off",
        "`levels._peel`",
        "oracle-tree-500; frozen-24",
        "6 and 29 times the forecast seconds",
    ),
    (
        "greedy orders of the whole for a question, without connected parts and tables in others",
        "`contraction.plan(quick=True)`",
        "oracle-adult15-s0 with its pairs; loop-adult with its pairs",
        "1.8 and 1.6 times the work",
    ),
    (
        "junction trees calibrated in logarithms alone",
        "products of probabilities while they last",
        "loop-adult; fit-loans15",
        "1.4 and 0.7 times the CPU seconds",
    ),
    (
        "one flat form of a compiled call for tables, too",
        "`Oracle.run` on tables",
        "fit-loans15",
        "1.5 times the CPU seconds of a call",
    ),
    (
        "maxima on the host by the contraction of tables in pieces",
        "`Program.maximum`",
        "fit-adult9; fit-loans15",
        "1.7 and 2.2 times the CPU seconds",
    ),
    (
        "nodes of a level tree that receive one message, or always four or eight",
        "`levels._fan_in`",
        "diagnosis-20x40-0; frozen-20",
        "eight: 1.19 on the first; four: 1.14 and 1.27 times the seconds of a call",
    ),
    (
        "marginals on the host with the scale of each table kept apart",
        "products without scales while they last",
        "fit-adult9; frozen-20",
        "1.4 and 1.5 times the CPU seconds",
    ),
    (
        "questions to a calibrated tree answered in the tree alone",
        "a contraction where that is shorter",
        "triples of loop-adult",
        "8.7 times the CPU seconds",
    ),
    (
        "log products of a batch by `vmap` alone, thin ones unswapped",
        "one of a batch after another, thin ones swapped",
        "300 of [128, 20] x [20, 128]; [3000, 300] x [300, 1]",
        "2.3 and 17 times the CPU seconds",
    ),
)


def measured(row: Row) -> list[tuple[str, float]]:
    """Figure without over figure with it, by name of the structure."""
    found = []
    for name in row.names:
        model = structure(name)
        fresh()
        with_it = row.figure(model)
        with row.without():
            fresh()
            without = row.figure(model)
        fresh()
        same = np.array_equal(with_it, without)  # two refusals, too
        found.append((name, 1.0 if same else float(np.max(np.divide(without, with_it)))))
    return found


def page(table: list[tuple[Row, list[tuple[str, float]]]]) -> str:
    """The note."""
    lines = [
        "# What each search, oracle and threshold wins", "",
        "`python bench/ablations.py` makes this page. A ratio is the cost without over the cost",
        f"with it; what loses less than {ENOUGH} on every case goes. Work, cells, launches and forecasts",
        "are computed from sizes; CPU seconds are medians of three runs. `inf`: refused without it.", "",
        "| what | without it | of what | lost at most | on | cases over 1.05 |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row, ratios in table:
        name, most = max(ratios, key=lambda pair: pair[1])
        over = sum(ratio > 1.05 for _, ratio in ratios)
        lines.append(
            f"| {row.name} | {row.instead} | {row.unit} | {most:.3g} | {name} | {over} of {len(ratios)} |"
        )
    lines += ["", "## What went", "", "| what | without it | on | ratio |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(each)} |" for each in GONE]
    lines += ["", "## Tried, not taken", "", "| what | instead of | on | cost |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(each)} |" for each in TRIED]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main() -> None:
    """Measure the rows, print each, and write the page if all were asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("words", nargs="*", help="of the names of rows; all by default")
    words = parser.parse_args().words
    table = []
    for row in ROWS:
        if words and not any(word in row.name for word in words):
            continue
        table.append((row, measured(row)))
        harness.say(f"{row.name}: " + ", ".join(f"{name} {ratio:.3g}" for name, ratio in table[-1][1]))
    if not words:
        PAGE.write_text(page(table), encoding="utf-8")


if __name__ == "__main__":
    main()
