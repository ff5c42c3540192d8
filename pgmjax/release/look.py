"""The holder's look: how far a release is from the private table itself. NEVER part of a release.

Everything here reads the exact table without noise, so that no result may be published: each says so, and
the page is written for its owner alone, outside of every release. A look changes neither the release nor a
ledger.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import threadpoolctl

from pgmjax import random
from pgmjax._internal import checks, files, page
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.population import Population
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.privacy.private_table import repeatable_choice
from pgmjax.queries.query import Query, marginal
from pgmjax.queries.spec import in_words
from pgmjax.queries.workload import Workload
from pgmjax.release.accuracy import SIZES
from pgmjax.release.asked import MOST_CELLS, AskedModel

MARK = "NOT FOR PUBLICATION: computed from the private table without noise."
MOST_PAIRS, MOST_TRIPLES = 1_000, 100
"""Pairs and triples of columns that are compared, those that were measured first."""
CHOSEN = (
    "No interval is checked: of units with more records than their bound others count here than in the "
    "release, because they are chosen at random."
)
_MOST_ROWS = 1_000_000  # drawn from the model
_MOST_TRAINED = 50_000  # rows that a classifier is trained on
_FEWEST_TRAINED = 20
_MOST_CLASSES = 20  # of a target that nobody named
_MOST_ANSWERS = 5_000_000
_AT_ONCE = 20_000_000  # cells that are counted in one scan
_SHOWN = 300


@dataclasses.dataclass(frozen=True)
class MarginalDistance:
    """The total variation distance of a marginal from that of the table: 0 is equal, 1 has nothing in common.

    Attributes:
        clique: its attributes.
        model: of the release's model.
        rows: of rows drawn from the model.
    """

    clique: Clique
    model: float
    rows: float


@dataclasses.dataclass(frozen=True)
class CheckedAnswers:
    """The answers to a query beside the true ones.

    Attributes:
        query: the query.
        estimates: as the release reports them [rows].
        intervals: its 95 % intervals [rows, 2], NaN where it has none.
        true: the exact answers [rows].
    """

    query: Query
    estimates: np.ndarray
    intervals: np.ndarray
    true: np.ndarray

    @property
    def determined(self) -> np.ndarray:
        """The answers that have an interval, bool [rows]."""
        return np.isfinite(self.intervals).all(axis=1)

    @property
    def held(self) -> np.ndarray:
        """The answers whose interval holds the true one, bool [rows]; False where there is none."""
        low, high = self.intervals.T
        return (low <= self.true) & (self.true <= high)


@dataclasses.dataclass(frozen=True)
class CellError:
    """A cell that is far off.

    Attributes:
        cell: its values in words.
        true: its exact count.
        estimate: its count in the release.
        interval: the ends of its 95 % interval, None without one.
    """

    cell: str
    true: float
    estimate: float
    interval: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class CellGroup:
    """The cells of one column, or of all columns and tables whose true counts are of about one size.

    Attributes:
        name: of the group.
        cells: how many.
        mean: the mean absolute error of their counts.
        held: the share of their intervals that hold the true count; None where none has an interval.
        worst: the cell of the largest absolute error.
    """

    name: str
    cells: int
    mean: float
    held: float | None
    worst: CellError


@dataclasses.dataclass(frozen=True)
class TrainedOnRows:
    """A classifier trained on rows of the model, and one trained on records, tested on other records.

    Attributes:
        target: the column that is predicted from the others.
        records: number of records that they are tested on.
        synthetic: accuracy, and its mean over the classes, if trained on rows of the model.
        real: the same if trained on records.
        guess: the same of always saying the most frequent class.
    """

    target: str
    records: int
    synthetic: tuple[float, float]
    real: tuple[float, float]
    guess: tuple[float, float]


@dataclasses.dataclass(frozen=True, repr=False)
class Look:
    """A release beside its private table. NOT FOR PUBLICATION: everything here is without noise.

    Attributes:
        records: number of records of the table that count, or their weight.
        total: the same in the release.
        population: what the release says that it counts.
        distances: of columns, pairs and some triples, the farthest first.
        answers: those of the columns and of the workload.
        columns: the cells of each column.
        sizes: the cells of all columns and tables of the workload by their true count.
        chosen: whether other records of units with too many count here than in the release, so that no
            interval can be checked.
        training: the classifiers; None if there are none.
        without: why there are none, "" otherwise.
    """

    records: int
    total: float
    population: Population | None
    distances: tuple[MarginalDistance, ...]
    answers: tuple[CheckedAnswers, ...]
    columns: tuple[CellGroup, ...]
    sizes: tuple[CellGroup, ...]
    chosen: bool
    training: TrainedOnRows | None
    without: str

    @property
    def held(self) -> tuple[int, int]:
        """The number of intervals that hold the true answer, and of all of them."""
        held = sum(int(each.held.sum()) for each in self.answers)
        return held, sum(int(each.determined.sum()) for each in self.answers)

    def farthest(self, size: int) -> MarginalDistance | None:
        """Return the marginal of so many attributes that is farthest from the table's."""
        return next((each for each in self.distances if len(each.clique) == size), None)

    def lines(self) -> Iterator[str]:
        """Yield what is to be said, the mark first."""
        yield MARK
        held, known = self.held
        if known:
            yield f"Of {known:,} intervals at 95 %, {held:,} hold the true answer ({held / known:.1%})."
            if held < 0.9 * known:
                yield "That is fewer than should: is it the table that the release was made of?"
        if self.chosen:
            yield CHOSEN
        for size, kind in ((1, "column"), (2, "pair"), (3, "triple")):
            found = [each for each in self.distances if len(each.clique) == size]
            if found:
                mean = np.mean([each.model for each in found])
                yield (
                    f"Total variation of {len(found):,} {kind}{'s' * (len(found) != 1)}: mean {mean:.4f}, "
                    f"largest {found[0].model:.4f} ({', '.join(found[0].clique)})."
                )
        if self.training is None:
            yield f"No classifier was trained: {self.without}"
        else:
            told = self.training
            yield (
                f"Predicting {told.target} of {told.records:,} records: accuracy {told.synthetic[0]:.1%} if "
                f"trained on synthetic rows, {told.real[0]:.1%} on records, {told.guess[0]:.1%} by guessing."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the look for JSON, the mark first."""
        held, known = self.held
        return {
            "not_for_publication": MARK,
            "records": self.records,
            "total": self.total,
            "intervals": {"held": held, "number": known},
            "distances": [dataclasses.asdict(each) for each in self.distances],
            "columns": [dataclasses.asdict(each) for each in self.columns],
            "sizes": [dataclasses.asdict(each) for each in self.sizes],
            "training": None if self.training is None else dataclasses.asdict(self.training),
            **({"without_training": self.without} if self.without else {}),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the look as one HTML page that opens offline and that its owner alone may read.

        Raises:
            TypeError: no name.
            ValueError: the name does not end in .html, the file exists, or it would be in a release.
        """
        target = check_page(path)
        text = _page(self)
        files.write_private(target, lambda file: file.write(text.encode()))

    def __repr__(self) -> str:
        return f"Look({MARK} lines() tells it, save(path) writes a page)"


def check_page(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return where a page of a look may be written.

    Raises:
        TypeError: no name.
        ValueError: the name does not end in .html, something is there, or it would be in a release.
    """
    target = checks.new_file(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"A look is a page of HTML: end its name in .html, got {os.fspath(path)}.")
    for folder in target.resolve().parents:
        if any((folder / name).is_file() for name in ("release.json", "fit.json", ".run.json")):
            raise ValueError(
                f"{os.fspath(path)} would be in the release {folder}, which is published whole: a look is "
                "not for publication. Give a name outside of it."
            )
    return target


def reading(domain: Domain, population: Population | None) -> dict[str, Any]:
    """Return how a table is to be read for its records to count as in a release: arguments of `Dataset`.

    Args:
        domain: of the release.
        population: of the release.
    """
    if population is None:
        return {}
    outside = "drop" if population.drops else None
    for one in () if population.drops else (None, "clip", "missing"):
        if set(Population.of_table(domain, one).over(domain).merged) == set(population.merged):
            outside = one
            break
    given = {"rows_outside": outside, "unit": population.unit, "max_weight": population.max_weight}
    if population.caps_weights:
        given["rows_outside"] = "clip"
    return {name: value for name, value in given.items() if value is not None}


def look(release: Any, table: Any, target: str | None) -> Look:
    """Return a release beside its private table; see `Release.look`.

    Args:
        release: with `model`, `population`, `seed`, `workload`, `estimates` and `report`.
        table: a `Dataset` over the release's domain, or a frame.
        target: the column that a classifier predicts; None: chosen from the domain.
    """
    model, domain = AskedModel.of(release.model), release.model.domain
    target, why = _target(domain, target)
    data = _opened(table, domain, release.population)
    known = release.seed is not None  # by which the records of a unit are chosen; otherwise nobody knows them
    data = (data.chosen_by(repeatable_choice(release.seed)) if known else data).snapshot()
    chosen = not known and len(data.left_out()[1]) > 0
    measured = list(dict.fromkeys(each.clique for each in release.estimates.measurements))
    asked = release.workload
    asked = Workload.of_marginals(measured) if asked is None and measured else asked
    rows = _drawn(model)
    answers = tuple(_checked(release, data, asked))
    if chosen:  # no interval is one for these records
        answers = tuple(dataclasses.replace(each, intervals=each.intervals * np.nan) for each in answers)
    cells = [each for each in answers if each.query == marginal(each.query.clique)]
    columns = (_group(*each.query.clique, [each], domain) for each in cells if len(each.query.clique) == 1)
    sizes = (
        _group(f"from {least:,}" if least else f"below {above:,}", cells, domain, least, above)
        for least, above in zip(SIZES, (*SIZES[1:], np.inf), strict=True)
    )
    training = None
    if target is not None:
        training, why = _trained(data, rows, target)
    return Look(
        records=data.count(),
        total=model.total,
        population=release.population,
        distances=tuple(_distances(model, data, rows, measured)),
        answers=answers,
        columns=tuple(filter(None, columns)),
        sizes=tuple(filter(None, sizes)),
        chosen=chosen,
        training=training,
        without=why,
    )


@contextlib.contextmanager
def of_the_release(table: Any) -> Iterator[None]:
    """Say of a table that cannot be read that it is another one: the release's domain is right."""
    try:
        yield
    except ValueError as error:
        remedy = r"(?:, and needs one)?: correct the name in the domain|: none of the domain's"
        said = re.split(remedy, str(error))
        told = f"{table} must be the table that the release was made of. {said[0].rstrip('., ')}."
        raise ValueError(told) from None


def _opened(table: Any, domain: Domain, population: Population | None) -> Dataset:
    """Return the table as the release counts it.

    Raises:
        ValueError: it is over another domain, or has weights where the release has none, or the other way
            round.
    """
    weighted = population is not None and population.max_weight is not None
    if not isinstance(table, Dataset):
        if weighted:
            raise ValueError("The release counts weights: give a Dataset, which says their column.")
        with of_the_release("The frame"):
            return Dataset.from_frame(domain, table, **reading(domain, population))
    checks.refuse(
        (
            table.domain != domain,
            "The table must be over the release's domain: open it with domain=release.model.domain, or give "
            "the frame.",
        ),
        (table.weighted != weighted, "Weights must be as in the release: open the table with the same ones."),
    )
    return table


def _drawn(model: AskedModel) -> Dataset:
    """Return rows of the model, as many as a release has, as a table."""
    rows = model.model.sample(min(max(round(model.total), 1), _MOST_ROWS), 0)
    return Dataset.from_columns(model.domain, rows)


def _counted(data: Dataset, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
    """Yield the exact counts of each clique, as many in one scan as memory may hold."""
    part: list[Clique] = []
    for clique in cliques:
        if part and sum(map(data.domain.size, part)) + data.domain.size(clique) > _AT_ONCE:
            yield from data.marginals(part)
            part = []
        part.append(clique)
    yield from data.marginals(part)


def _cliques(domain: Domain, measured: Sequence[Clique]) -> Iterator[Clique]:
    """Yield the columns, and the pairs and triples that are compared, those that were measured first."""
    yield from ((name,) for name in domain)
    for size, most in ((2, MOST_PAIRS), (3, MOST_TRIPLES)):
        own = (part for clique in measured for part in itertools.combinations(clique, size))
        kept: dict[frozenset[str], Clique] = {}
        for clique in itertools.chain(own, _others(domain.attributes, size, most)):
            if len(kept) < most and domain.size(clique) <= MOST_CELLS:
                kept.setdefault(frozenset(clique), clique)
        yield from kept.values()


def _others(names: Sequence[str], size: int, most: int) -> Iterator[Clique]:
    """Yield sets of so many attributes: all of them, or where there are more than wanted some at random."""
    if math.comb(len(names), size) <= most:
        yield from itertools.combinations(names, size)
        return
    generator = random.generator(0)
    for _ in range(20 * most):
        yield tuple(names[place] for place in sorted(generator.choice(len(names), size, replace=False)))


def total_variation(ours: np.ndarray, true: np.ndarray) -> float:
    """Return half the L1 distance between two tables, each divided by its sum.

    Example:
        >>> total_variation(np.array([1.0, 3.0]), np.array([5, 5]))
        0.25
    """
    return float(np.abs(ours / ours.sum() - true / true.sum()).sum() / 2)


def _distances(
    model: AskedModel, data: Dataset, rows: Dataset, measured: Sequence[Clique]
) -> list[MarginalDistance]:
    """Return the distances, the farthest first; of a marginal that no model in memory gives there is none."""
    cliques = list(_cliques(model.domain, measured))
    found = []
    for clique, true, drawn in zip(cliques, _counted(data, cliques), _counted(rows, cliques), strict=True):
        try:
            fitted = np.asarray(model.marginal(clique))
        except ModelTooLargeError:
            continue
        far = total_variation(fitted, true), total_variation(drawn, true)
        found.append(MarginalDistance(clique, *far))
    return sorted(found, key=lambda each: (len(each.clique), -each.model))


def _checked(release: Any, data: Dataset, workload: Workload | None) -> Iterator[CheckedAnswers]:
    """Yield the answers to the columns, then to the other queries of a workload, beside the true ones."""
    queries: list[Query] = [marginal([name]) for name in data.domain]
    queries += [] if workload is None else [each.query for each in workload.over(data.domain).entries]
    room, kept = _MOST_ANSWERS, []
    for query in dict.fromkeys(queries):
        room -= query.num_rows(data.domain)
        if room >= 0 and data.domain.size(query.clique) <= MOST_CELLS:
            kept.append(query)
    for query, counts in zip(kept, _counted(data, [query.clique for query in kept]), strict=True):
        found = release.report(query)
        true = np.asarray(query.apply(counts), np.float64).reshape(-1)
        yield CheckedAnswers(query, found.estimates, found.intervals, true)


def _group(
    name: str,
    answers: Sequence[CheckedAnswers],
    domain: Domain,
    least: float = -np.inf,
    above: float = np.inf,
) -> CellGroup | None:
    """Return the cells of some marginals whose exact counts are of a size; None if there is none."""
    inside = [(each.true >= least) & (each.true < above) for each in answers]
    number = sum(int(part.sum()) for part in inside)
    if not number:
        return None
    pairs = list(zip(answers, inside, strict=True))
    errors = [np.where(part, np.abs(each.estimates - each.true), -1.0) for each, part in pairs]
    held = sum(int((each.held & part).sum()) for each, part in pairs)
    known = sum(int((each.determined & part).sum()) for each, part in pairs)
    off = sum(float(error[error > 0].sum()) for error in errors)
    worst = int(np.argmax([error.max() for error in errors]))
    cell = _cell(answers[worst], int(errors[worst].argmax()), domain)
    return CellGroup(name, number, off / number, held / known if known else None, cell)


def _cell(answers: CheckedAnswers, place: int, domain: Domain) -> CellError:
    clique = answers.query.clique
    codes = np.unravel_index(place, domain.shape_of(clique))
    named = (
        f"{name}={domain.attribute(name).code_names()[code]}"
        for name, code in zip(clique, codes, strict=True)
    )
    ends = answers.intervals[place].tolist() if answers.determined[place] else None
    interval = None if ends is None else (ends[0], ends[1])
    return CellError(", ".join(named), float(answers.true[place]), float(answers.estimates[place]), interval)


def _target(domain: Domain, target: str | None) -> tuple[str | None, str]:
    """Return the column that is predicted, from public facts alone, or None and why there is none.

    Raises:
        TypeError: no name.
        ValueError: there is no such column, or it has one value.
    """
    if target is not None:
        checks.kind(target, str, "target must be the name of a column")
        if target not in domain or domain[target] < 2:
            listed = ", ".join(name for name in domain if domain[name] > 1)
            raise ValueError(
                "target must be a column of the release with two values or more, one of "
                f"{listed}; got {target!r}."
            )
        return target, ""
    fit = [name for name in domain if 2 <= domain[name] <= _MOST_CLASSES]
    if not fit:
        return None, f"no column has 2 to {_MOST_CLASSES} values; name one as target."
    return fit[-1], ""


def _codes(data: Dataset) -> dict[str, np.ndarray]:
    parts = list(data.records(data.domain.attributes))
    return {name: np.concatenate([part[name] for part in parts]) for name in data.domain}


def _trained(data: Dataset, rows: Dataset, target: str) -> tuple[TrainedOnRows | None, str]:
    """Return the classifiers, or None and why there are none."""
    if data.weighted:
        return None, "the records have weights."
    if len(data.domain) < 2:
        return None, "there is no other column to predict by."
    if data.count() < _FEWEST_TRAINED:
        return None, f"there are fewer than {_FEWEST_TRAINED} records."
    try:
        ensemble = checks.optional("sklearn.ensemble", extra="learners")
    except ImportError as error:
        return None, f"{error}."
    inputs = [name for name in data.domain if name != target]

    def both(codes: Mapping[str, np.ndarray], places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([codes[name][places] for name in inputs], axis=1), codes[target][places]

    real, drawn = _codes(data), _codes(rows)
    order = random.generator(0).permutation(len(real[target]))
    half = len(order) // 2
    tested = both(real, order[half:][:_MOST_TRAINED])
    learned = both(real, order[:half][:_MOST_TRAINED])
    made = both(drawn, random.generator(1).permutation(len(drawn[target]))[:_MOST_TRAINED])

    def scores(train: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
        if len(np.unique(train[1])) < 2:
            return _scores(tested[1], np.full(len(tested[1]), train[1][0]))
        classifier = ensemble.HistGradientBoostingClassifier(max_iter=50, random_state=0)
        # threads that wait for one another take 100 times as long where other work keeps a core busy
        with threadpoolctl.threadpool_limits(1, user_api="openmp"):
            return _scores(tested[1], classifier.fit(*train).predict(tested[0]))

    frequent = np.bincount(learned[1]).argmax()
    guessed = _scores(tested[1], np.full(len(tested[1]), frequent))
    return TrainedOnRows(target, len(tested[1]), scores(made), scores(learned), guessed), ""


def _scores(true: np.ndarray, said: np.ndarray) -> tuple[float, float]:
    """Return the share of right answers, and its mean over the classes that there are."""
    right = true == said
    return float(right.mean()), float(np.mean([right[true == one].mean() for one in np.unique(true)]))


def _page(found: Look) -> str:
    """Return the look as HTML text, whose first line says that it is not for publication."""
    parts = [
        _heading(found),
        page.section("Distances", _of_distances(found), _DISTANCES),
        page.section("Intervals", _of_intervals(found), CHOSEN if found.chosen else _INTERVALS),
        page.section("Worst cells", _of_cells(found), _CELLS),
        page.section("Trained on synthetic rows, tested on records", _of_training(found)),
    ]
    return f"<!-- {MARK} -->\n{page.document(f'NOT FOR PUBLICATION: {_TITLE}', parts)}"


_TITLE = "A release beside its table"
_DISTANCES = (
    "Total variation: the share of records that would have to be moved for the two to be equal. That of the "
    "model, and that of rows drawn from it. The farthest come first."
)
_INTERVALS = "How many of the release's 95 % intervals hold the exact answer of the table."
_CELLS = (
    "The largest absolute error of a count among the cells of each column, and among the cells of all "
    "columns and tables of the workload whose exact counts are of one size."
)


def _heading(found: Look) -> str:
    held, known = found.held
    facts = {
        "records that count": f"{found.records:,}",
        "records in the release": f"{found.total:,.0f}",
        "intervals that hold": f"{held / known:.1%}" if known else "none",
        **{
            f"farthest {kind}": f"{each.model:.3f}"
            for size, kind in ((1, "column"), (2, "pair"), (3, "triple"))
            if (each := found.farthest(size)) is not None
        },
    }
    said = (
        "This page shows exact counts of the table, and errors from which exact counts follow. It is for the "
        "holder of the table alone. Whatever is decided by it, such as another release, is a choice made "
        "after looking at the table, which no guarantee covers."
    )
    above = f'<p class="warn"><strong>{escape(MARK)}</strong> {escape(said)}</p>\n'
    return page.heading(_TITLE, above, facts)


def _of_distances(found: Look) -> str:
    parts = []
    for size, kind in ((1, "Columns"), (2, "Pairs"), (3, "Some triples")):
        rows = [
            (", ".join(each.clique), f"{each.model:.4f}", f"{each.rows:.4f}")
            for each in found.distances
            if len(each.clique) == size
        ]
        if rows:
            heads = {"columns": "", "model": "n", "rows": "n"}
            more = f" (the {_SHOWN} farthest of {len(rows):,})" if len(rows) > _SHOWN else ""
            parts.append(f"<h3>{kind}{more}</h3>{page.table(heads, rows[:_SHOWN])}")
    return "".join(parts)


def _of_intervals(found: Look) -> str:
    rows = []
    for each in found.answers:
        known = int(each.determined.sum())
        share = f"{each.held.sum() / known:.1%}" if known else "no interval"
        named = ", ".join(each.query.clique)
        rows.append((named, in_words(each.query), f"{each.true.size:,}", f"{known:,}", share))
    heads = {"columns": "", "query": "", "answers": "n", "with an interval": "n", "hold the true answer": "n"}
    return page.table(heads, sorted(rows, key=lambda row: row[-1])[:_SHOWN])


def _of_cells(found: Look) -> str:
    heads = {
        **{"group": "", "cells": "n", "mean error": "n", "intervals that hold": "n", "worst cell": ""},
        **{"exact": "n", "released": "n", "95 % interval": "n"},
    }
    parts = []
    for kind, groups in (("By column", found.columns), ("By exact count", found.sizes)):
        rows = [
            (
                each.name,
                f"{each.cells:,}",
                page.number(each.mean),
                "no interval" if each.held is None else f"{each.held:.1%}",
                each.worst.cell,
                page.number(each.worst.true),
                page.number(each.worst.estimate),
                "none" if each.worst.interval is None else " to ".join(map(page.number, each.worst.interval)),
            )
            for each in groups
        ]
        parts.append(f"<h3>{kind}</h3>{page.table(heads, rows)}")
    return "".join(parts)


def _of_training(found: Look) -> str:
    told = found.training
    if told is None:
        return page.paragraphs([f"No classifier was trained: {found.without}"])
    said = (
        f"{told.target} is predicted from all other columns by gradient-boosted trees of scikit-learn, and "
        f"tested on {told.records:,} records that neither was trained on."
    )
    rows = [
        (name, f"{right:.1%}", f"{mean:.1%}")
        for name, (right, mean) in (
            ("synthetic rows", told.synthetic),
            ("records of the table", told.real),
            ("nothing: always the most frequent class", told.guess),
        )
    ]
    heads = {"trained on": "", "right": "n", "right, mean over classes": "n"}
    return f"{page.paragraphs([said])}{page.table(heads, rows)}"
