"""Online answering (Section 6.4 of Xiao and Xiong 2012): cost, answering ratio, reliability, relative error.

    PGMJAX_DATA=... python bench/paper003/sessions.py [--queries 1000] [--tables NETTRACE SEARCHLOGS]
        [--settings unbounded bounded] [--seeds N] [--plot]

Each table of DPBench, 4096 cells, is added up to 40 neighbouring groups. A query draws 1 to 10 cells from
P_j proportional to 10^-floor((j-1)/10) (the paper's P_j do not sum to 1). `unbounded`: 2 epsilon uniform in
[50, 1000], a binary tree bought at 0.3 to begin with, whose cost counts; `bounded`: a cap of 1, 2 epsilon
uniform in [1, 1000], nothing to begin with. delta is 0.2. Methods: `session`; `baseline`, the least
budget for every query, nothing inferred; `ols`, the session's answers with point estimates by unweighted
least squares. Noise is seeded: nothing here is a release. Sessions that bench/results/paper003-sessions.jsonl
has are not run again.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np

import pgmjax as pj
from pgmjax.history.session.costs import CellAccount
from pgmjax.history.session.state import AccuracyRequirement
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend

CELLS, DELTA = 40, 0.2
DOMAIN = pj.Domain({"cell": CELLS})
SETTINGS = {"unbounded": (10**4, 50), "bounded": (1, 1)}  # cap, least 2 epsilon
SEEDS = 50
CURVES = 5  # seeds whose curves are kept and drawn; of the others the end alone
NAME = "paper003-sessions"


def counts_of(name):
    """The table's 40 counts."""
    folder = os.environ.get("PGMJAX_DATA")
    if folder is None:
        raise SystemExit("PGMJAX_DATA is not set: it names the folder that holds dpbench/.")
    cells = np.load(pathlib.Path(folder) / "dpbench" / f"{name}.n4096.npy")
    return np.array([part.sum() for part in np.array_split(cells.reshape(-1), CELLS)]).astype(np.int64)


def requirements(number, least, seed):
    """Queries and half-widths, the same for every method."""
    rng = np.random.default_rng([seed, least])
    shares = 10.0 ** -(np.arange(CELLS) // 10)
    for _ in range(number):
        entries = rng.multinomial(rng.integers(1, 11), shares / shares.sum())
        yield entries, float(rng.uniform(least, 1000)) / 2


def tree():
    """The rows of a binary tree over the cells, from the whole to single ones."""
    rows, level = [], [np.arange(CELLS)]
    while level:
        rows += [np.isin(np.arange(CELLS), part).astype(np.int64) for part in level]
        level = [half for part in level if len(part) > 1 for half in np.array_split(part, 2)]
    return pj.queries.DenseMatrix(("cell",), np.array(rows))


class Score:
    """What the paper counts, as answers come in."""

    def __init__(self):
        self.asked = self.answered = self.held = self.covered = 0
        self.errors = 0.0

    def add(self, answered, value=0.0, interval=(0.0, 0.0), truth=0.0, half_width=1.0):
        """Take up one query's answer, or that there is none."""
        self.asked += 1
        if answered:
            self.answered += 1
            self.held += interval[0] <= truth <= interval[0] + 2 * half_width  # Definition 6.2
            self.covered += interval[0] <= truth <= interval[1]
            self.errors += abs(value - truth) / (2 * half_width)

    def line(self, cost):
        """Return the figures so far."""
        done = max(self.answered, 1)
        ratios = {"answering_ratio": self.answered / self.asked, "reliability": self.held / done}
        ratios["coverage"] = self.covered / done  # of the interval that was returned, which may be shorter
        return {"queries": self.asked, "cost": float(cost), **ratios, "relative_error": self.errors / done}


def baseline(counts, cap, least, number, seed):
    """The least budget for every query, as long as the cap lasts."""
    account, score = CellAccount(DOMAIN, pj.Relation.ADD_REMOVE), Score()
    backend = SeededBackend(seed + 1000 * (1 + int(counts[0])), insecure=True)
    for entries, half_width in requirements(number, least, seed):
        requirement = AccuracyRequirement.of(
            pj.queries.DenseMatrix(("cell",), [entries]), half_width, DELTA, DOMAIN
        )
        rate, _, distribution = requirement.price(DOMAIN, account.relation, backend.laplace)
        after = account.added(requirement.query, rate)
        if after.cost > cap:
            score.add(False)
        else:
            account, truth = after, float(entries @ counts)
            value = truth + float(backend.draw(distribution, 1)[0])
            width = distribution.half_width(1 - DELTA)
            score.add(True, value, (value - width, value + width), truth, half_width)
        yield {"method": "baseline", **score.line(account.cost)}


def online(counts, setting, cap, least, number, seed):
    """A session, and least squares on its history."""
    data = pj.Dataset.from_columns(DOMAIN, {"cell": np.repeat(np.arange(CELLS), counts)})
    ours, ols, sources = Score(), Score(), {}
    gram, right, known = np.zeros((CELLS, CELLS)), np.zeros(CELLS), 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, Ledger.create(pathlib.Path(folder) / "b.ledger") as ledger:
        rules = {"epsilon": cap, "relation": "add-remove", "research": True}
        ledger.register("t", digest=ledger.digest_of(data), domain=data.domain, **rules)
        backend = SeededBackend([*SETTINGS].index(setting) + 10 * seed + int(counts[0]) * 100, insecure=True)
        session = pj.history.Session.open(ledger, data, cap=cap, relation="add-remove", backend=backend)
        if setting == "unbounded":
            session.buy(tree(), Fraction(3, 10))
        for entries, half_width in requirements(number, least, seed):
            answer = session.ask(pj.queries.DenseMatrix(("cell",), [entries]), half_width, DELTA)
            for measurement in session.history.measurements[known:]:
                rows = measurement.query.matrix(DOMAIN)
                gram, right = gram + rows.T @ rows, right + rows.T @ measurement.flat_values()
            known = len(session.history.measurements)
            sources[answer.source] = sources.get(answer.source, 0) + 1
            if answer.answered:
                truth = float(entries @ counts)
                ours.add(True, answer.value, answer.interval, truth, half_width)
                plain = float(entries @ (np.linalg.pinv(gram, hermitian=True) @ right))
                ends = plain - half_width, plain + half_width
                ols.add(True, plain, ends, truth, half_width)
            else:
                ours.add(False)
                ols.add(False)
            seconds = time.perf_counter() - start
            yield {
                "method": "session",
                **ours.line(session.cost),
                "sources": dict(sources),
                "seconds": seconds,
            }
            yield {"method": "ols", **ols.line(session.cost)}


def run(table, setting, number, seed):
    """All methods on a table in a setting, twenty lines each; of a further seed the last one."""
    counts, (cap, least) = counts_of(table), SETTINGS[setting]
    every = max(1, number // 20) if seed < CURVES else number
    for lines in (
        baseline(counts, cap, least, number, seed),
        online(counts, setting, cap, least, number, seed),
    ):
        for line in lines:
            if line["queries"] % every == 0 or line["queries"] == number:
                yield {"table": table, "setting": setting, "number": number, "seed": seed, **line}


def draw(lines, canvas):
    """Figures 9 and 10: cost or answering ratio, relative error and reliability against queries."""
    panels = list(dict.fromkeys((line["setting"], line["table"]) for line in lines))
    axes = canvas.subplots(3, len(panels), squeeze=False)
    for column, (setting, table) in enumerate(panels):
        first = "cost" if setting == "unbounded" else "answering_ratio"
        for row, name in enumerate((first, "relative_error", "reliability")):
            for method, colour in zip(("session", "baseline", "ols"), ("C0", "C1", "C2"), strict=True):
                runs = {}
                for x in lines:
                    if (x["setting"], x["table"], x["method"]) == (setting, table, method):
                        runs.setdefault(x["seed"], []).append((x["queries"], x[name]))
                for number, run in enumerate(runs.values()):
                    label = None if number else method
                    axes[row, column].plot(*zip(*run, strict=True), color=colour, lw=0.9, label=label)
            axes[row, column].set_ylabel(name.replace("_", " "))
        axes[0, column].set_title(f"{table}, {setting}")
        axes[2, column].set_xlabel("queries")
    axes[0, 0].legend()


def main():
    """Run what is missing."""
    parser = harness.parser(__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds 0, 1, ...")
    parser.add_argument("--tables", nargs="+", default=["NETTRACE", "SEARCHLOGS"])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--plot", action="store_true", help="draw what the file has")
    options = parser.parse_args()
    path, about = harness.RESULTS / f"{NAME}.jsonl", harness.provenance()
    lines = harness.read(path)
    known = {(line["table"], line["setting"], line["number"], line["seed"]) for line in lines}
    for setting in [] if options.plot else options.settings:
        seeds = range(options.seeds)
        for key in itertools.product(options.tables, [setting], [options.queries], seeds):
            if key not in known:
                made = [{**about, **line} for line in run(*key)]
                with path.open("a") as file:  # at once: what is there is whole
                    file.write("".join(json.dumps(line) + "\n" for line in made))
                lines += made
                harness.say(f"{key}: {made[-1]['method']}, cost {made[-1]['cost']:.3g}")
    if options.plot:
        size = (4 * len({(line["setting"], line["table"]) for line in lines}), 8)
        harness.figure(NAME, lambda canvas: draw(lines, canvas), size)


if __name__ == "__main__":
    main()
