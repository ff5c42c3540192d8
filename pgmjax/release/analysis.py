"""Tables to analyse like real ones, and estimates of anything, by draws of a release's noisy answers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pgmjax._internal import checks, memory
from pgmjax._internal.extras import arrow
from pgmjax._internal.migration import Named, instead, of_class
from pgmjax.data.domain import as_clique
from pgmjax.data.population import Population, sentences_of
from pgmjax.estimation.estimator import Estimator
from pgmjax.learning.predictor import Predictor
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.row_file import decoded_rows
from pgmjax.model.rows import require_room
from pgmjax.model.sampling import INDEPENDENT
from pgmjax.queries import Query, marginal
from pgmjax.queries import text as query_text
from pgmjax.release import accuracy, whole_table
from pgmjax.release.accuracy import Reported
from pgmjax.release.look import Look, look
from pgmjax.release.means import MeanQuery, Means
from pgmjax.release.whole_table import WholeTable, in_words
from pgmjax.uncertainty.posterior import Combined, around, debiased, draws_of

_STEPS, _STEPS_AGAIN = 300, 100
"""Steps of the first fit of a draw, and of each that goes on from it with changed answers. Where the first
has few, moments are not there yet, and answers are moved for what is no loss."""
PULLED = Estimator(solver="accelerated", max_steps=_STEPS)
PLAIN = dataclasses.replace(PULLED, regularisation="none")
"""How draws are fitted: the bias of a pulled fit would lie in no interval. Newton's method, which goes on
where a draw is not certified, would take seconds for each and not move it beyond its noise."""
_BYTES_A_CELL = 64  # of a draw: noisy answers as they were drawn and moved, potentials, a fit's steps
_LEFT, _WIDE = 0.1, 10**7
"""The part of a pull's weight that draws keep where a step takes more exponentials than this. Without any,
the potentials of cells near zero run away there, and a step takes ten times as long: a fit of seven
attributes with all pairs 56 CPU seconds, and 2.8 with a tenth. Of small models it would make the intervals
too narrow."""
_FAR = 1000
"""How many times as far as most a draw may be from the fit. Of a normal distribution, 5 times are rare."""
_MOST_LOOKED_FOR = 10**6  # answers of which it is looked whether they are determined
_INSTEAD = "ask for what each model has, such as a difference instead of a ratio"
_Rows = Sequence[Sequence[LinearMeasurement]]


class Answer(NamedTuple):
    """An answer of a release.

    Attributes:
        estimate: the best count from the model and the noisy counts together; it lies in its interval.
        low: lower end of the 95 % interval of the noisy counts; None if they do not determine the answer.
        high: its upper end.
        share: the estimate over the model's total, inside its interval.
        share_low: lower end of the 95 % interval of the share; None if it is not determined.
        share_high: its upper end.
        population: what count and share are of, with the cells that count other values too; None of a fit to
            published answers that do not say it.
        interpolated: a sentence on each bin that a bound cuts; no interval covers how values lie in it.
        whole: the ends of 95 % intervals of count and share in the whole table, if what it leaves out was
            counted; None if nothing bounds them.
        given_by: what answered: the model, or a trained model that learned the attributes together.
    """

    estimate: float
    low: float | None
    high: float | None
    share: float
    share_low: float | None
    share_high: float | None
    population: Population | None
    interpolated: tuple[str, ...] = ()
    whole: tuple[tuple[float, float], tuple[float, float]] | None = None
    given_by: str = accuracy.MODEL

    @property
    def count(self) -> float:  # type: ignore[override]
        """The estimate, as one looks for it; `count` of other tuples counts their members."""
        return self.estimate

    def __float__(self) -> float:
        return self.estimate

    def __truediv__(self, other: Any) -> NoReturn:
        raise TypeError("An answer has several numbers: calculate with answer.estimate, or answer.share.")

    def __getattr__(self, name: str) -> Any:
        return of_class(self, name)

    @property
    def determined(self) -> bool:
        """True if what was measured determines the answer."""
        return self.low is not None

    def __str__(self) -> str:
        weighted = self.population is not None and self.population.max_weight is not None
        counted = "in weight" if weighted else "rows"
        said = f"{self.estimate:,.1f} {counted}"
        if self.low is None or self.high is None:
            said += f" (no interval: it rests on {self.given_by} alone), {self.share:.2%}"
        else:
            said += f" (95 % interval {self.low:,.1f} to {self.high:,.1f}), {self.share:.2%}"
        if self.share_low is not None and self.share_high is not None:
            said += f" (95 % interval {self.share_low:.2%} to {self.share_high:.2%})"
        covered = (query_text.NOT_COVERED,) if self.interpolated else ()
        whole = () if self.whole is None else (f"{in_words(*self.whole)}.",)
        return " ".join([f"{said}.", *self.interpolated, *covered, *whole, *sentences_of(self.population)])


class Analysed(Named):
    """Answers about the whole table, tables to analyse and estimates of a release, in memory or on disk."""

    __getitem__ = instead(
        "A release is asked, not indexed: write release.report(('age',)) for counts, release.mean('age'), or "
        "release.model.marginal(('age',))."
    )

    @property
    def _learned(self) -> Predictor | None:
        """The trained model of a release that answers by it."""
        return None

    def report(self: Any, query: Any) -> Reported:
        """Return the answers to a query that are reported everywhere, with their intervals, at no cost.

        They are those of the trained model, if the release answers by one that learned the attributes
        together.

        Args:
            query: a query, conditions such as "sex=F,age<30", or names, as `queries.text.asked` takes them.

        Raises:
            TypeError: none of these.
            ValueError: it does not fit the domain.
        """
        query = query_text.asked(self.model.domain, query)
        if self._learned is not None:
            with contextlib.suppress(ValueError):  # of attributes that no learner learned together
                return self.estimates.report(query, self._learned.predict(query), given_by=accuracy.LEARNER)
        return self.estimates.report(query, self.asked.answer(query))

    def look(self: Any, table: Any, *, target: str | None = None) -> Look:
        """Return this release beside its private table, for the table's holder. NOT FOR PUBLICATION.

        How far columns, pairs and some triples are from the table's; how many of the 95 % intervals hold the
        true answer; the worst cells; and what a classifier that is trained on synthetic rows gets right. All
        is computed without noise. Neither the release nor a ledger changes.

        Args:
            table: a `Dataset` over the release's domain, or a frame, which is read as the release says that
                its table was.
            target: the column that a classifier predicts. Default: the last one of 2 to 20 values.

        Raises:
            TypeError: no table, or no name.
            ValueError: the table does not fit the release's domain, or there is no such target.
        """
        return look(self, table, target)

    def query(self: Any, text: str) -> Answer:
        """Return how many records satisfy a condition such as "sex=F,age<30", as `pgmjax query` takes it.

        A bound within a bin is answered by interpolation, which the answer says.

        Raises:
            ValueError: a condition that the domain does not allow.
        """
        asked = query_text.conditions(text, self.model.domain, interpolate=True)
        found = self.report(asked.query)
        low, high = found.intervals[0].tolist() if found.determined[0] else (None, None)
        share = float(found.share(self.model.total)[0])
        least, most = found.shares[0].tolist() if np.isfinite(found.shares[0]).all() else (None, None)
        population, whole = self.population, None
        population = None if population is None else population.of_cells(asked.codes)
        if population is not None and population.omitted is not None and low is not None:
            bounds = self.whole_table(asked.query)
            whole = tuple(bounds.counts[0].tolist()), tuple(bounds.shares[0].tolist())
        told = population, asked.notes, whole, found.given_by
        return Answer(float(found.estimates[0]), low, high, share, least, most, *told)

    def mean(self: Any, name: str, by: Any = (), where: str | None = None, draws: int | None = None) -> Means:
        """Return the mean of an attribute, in all records or in each group of them, with 95 % intervals.

        Values are taken to lie in their bins as synthetic rows have them, evenly or as `within` says; `reach`
        is how far the mean moves if they lie elsewhere there, and `notes` say so where values beyond the ends
        count in the end bins, which nothing bounds. This costs no privacy.

        Args:
            name: an attribute whose values are numbers.
            by: the attributes whose values make groups, or one of them.
            where: conditions as text on the records that count, such as "age>=18"; None for all.
            draws: number of draws for an interval where the noisy answers determine none, as `estimate` makes
                them; it holds if the model is right about what was not measured together. None for none
                there.

        Raises:
            TypeError: names or conditions of another kind.
            ValueError: an unknown name, an attribute without numbers, or a condition that the domain does not
                allow; no draws can be made.

        References:
            Fieller 1954, "Some problems in interval estimation".
        """
        asked = MeanQuery(self.model.domain, name, by, where, self.population)
        fitted = np.asarray(self.model.answer(asked.query), np.float64)
        found = asked.report(fitted, self.estimates)
        there = found.records > 0
        if draws is None or found.determined[there].all():
            return found
        drawn = self.estimate(lambda model: asked.near(model.answer(asked.query), fitted)[there], draws)
        ends = np.full(found.intervals.shape, np.nan)
        ends[there] = np.clip(np.stack(drawn.interval, axis=-1), asked.low, asked.high)
        return found.drawn(ends)

    def whole_table(self: Any, query: Any) -> WholeTable:
        """Return 95 % intervals of the answers to a query in the whole table, with the records left out.

        Args:
            query: as `queries.text.asked` takes it, without negative weights.

        Raises:
            TypeError: no query.
            ValueError: nothing that was counted bounds what is left out, or the query has negative weights.
        """
        query = query_text.asked(self.model.domain, query)
        return whole_table.of_query(self.estimates, self.population, query, self.report(query))

    def tables(self, m: int = 20, seed: int = 0, *, rows: int | None = None) -> list[Any]:
        """Return tables to analyse like real ones, whose estimates `pj.uncertainty.combine` puts together.

        Each is of one draw of the posterior of the noisy answers, with records drawn independently of one
        another. A draw is fitted without regularisation, whose bias would lie in no interval, and without a
        prior or public facts, which are no part of what the noisy answers say. Cells that noise alone may
        fill are left empty in it, and moments are moved towards the noisy answers, so that little dependence
        is lost where most cells are empty. An adaptive mechanism's choice of what to measure is taken as it
        was: what it adds to the error is in no interval. This costs no privacy.

        Args:
            m: number of tables, >= 2; 20 are usual.
            seed: the same seed gives the same tables. It protects nothing and need not be secret.
            rows: records of each table. Default: as many as its model has; of fewer, `combine` makes errors
                too large.

        Returns:
            Frames of pandas, with labels and values.

        Raises:
            ImportError: pandas or pyarrow is not installed.
            ValueError: m is below 2, rows below 1, records have weights, or nothing was measured.
        """
        checks.optional("pandas", extra="demo")
        return [
            arrow.table(columns).to_pandas(date_as_object=False)
            for _, columns in self.drawn_columns(m, seed, rows)
        ]

    def estimate(
        self: Any,
        function: Callable[[GraphicalModel], Any],
        draws: int = 100,
        seed: int = 0,
        *,
        level: float = 0.95,
        population: bool = False,
    ) -> Combined:
        """Return anything that a model has, with its standard error and an interval, by draws without rows.

        The mechanism's noise is drawn anew and a model is fitted to each, without regularisation. The
        interval is that of the function's values about its value for such a fit to the release's answers,
        widened to hold this release's own; the standard error has how far the two are apart beside it. This
        costs no privacy. The draws are kept for the next function, as long as nothing is drawn otherwise.

        Args:
            function: takes a model and returns numbers: a ratio, a quantile, an entropy, a correlation. Of
                the model it should use `marginal` and `answer`, from which is seen what it rests on.
            draws: number of draws, >= 2.
            seed: the same seed gives the same draws. It protects nothing.
            level: of the interval.
            population: whether the interval is about the population that the records are a sample of, and not
                about the records that count.

        Returns:
            The estimate. With `rests_on_model` it is of cells that the noisy answers do not determine, such
            as those of attributes that no measured marginal holds together: how far the model is off there is
            in no interval.

        Raises:
            TypeError: the function does not return numbers.
            ValueError: as `tables`; the function fails on some draws or is far from all others there, as a
                ratio of counts near 0 is (how many), or it asks for an attribute that nothing measured tells
                of.
        """
        self._check_drawable()
        draws = checks.integer("draws", draws, low=2)
        level = checks.number("level", level, above=0, below=1)
        if not callable(function):
            raise TypeError(
                "function must take a model and return numbers, such as lambda model: "
                f"model.marginal(('age',))[0], got {type(function).__name__}."
            )
        watched: Any = _Watched(self.model)
        centre = _numbers(function(watched))
        if centre is None:
            raise ValueError("The function is not finite for the release's own model: nothing is estimated.")
        alone = self._rests_on_model(watched.asked)
        models = self._drawn_models(draws, seed, people=population)
        about, *found = _values(function, [self._about, *models], centre)
        return dataclasses.replace(around(centre, about, found, level=level), rests_on_model=alone)

    def drawn_columns(
        self: Any, m: int, seed: int = 0, rows: int | None = None
    ) -> Iterator[tuple[GraphicalModel, dict[str, Any]]]:
        """Return the model and the Arrow columns of each of `tables`; refused before anything is drawn."""
        self._check_drawable()
        if isinstance(m, str):
            raise TypeError(
                f"m must be the number of tables to draw, such as 20; counts of {m!r} are "
                f"model.marginal([{m!r}])."
            )
        m = checks.integer("m", m, low=2)
        rows = None if rows is None else checks.integer("rows", rows, low=1)
        require_room(round(self.model.total) if rows is None else rows, self.model.domain)
        return _with_rows(self._drawn_models(m, seed, people=True), seed, rows)

    def _check_drawable(self: Any) -> None:
        """Refuse draws of a release of weights, or without noisy answers that a model was fitted to."""
        if self.weighted:
            raise ValueError("Records have weights, and draws are of records: leave weights out.")
        if not self.estimates.measurements or not isinstance(self.model, GraphicalModel):
            raise ValueError(
                "Draws need noisy counts and a graphical model fitted to them, and this release has none, so "
                "that nothing tells how far its model may be off: release with a mechanism that measures, "
                "such as marginals."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy or a pickle, without the models drawn last, which may be many."""
        return {k: value for k, value in self.__dict__.items() if k not in ("_last_drawn", "_about")}

    @functools.cached_property
    def _about(self: Any) -> GraphicalModel:
        """The model that draws are about, the same for all seeds: of the noisy answers, without a pull."""
        domain, measurements, total = self.model.domain, self.estimates.measurements, self.estimates.total
        first, again = self._estimators

        def alone(rows: _Rows, before: Sequence[GraphicalModel] | None) -> list[GraphicalModel]:
            if before is None:
                return [first.fit(domain, row, total).model for row in rows]
            # changed answers are nobody's: that they do not add up to the total is no news
            with warnings.catch_warnings(action="ignore"):
                pairs = zip(rows, before, strict=True)
                return [again.fit(domain, row, one.total, one).model for row, one in pairs]

        return debiased([measurements], alone)[0]

    @functools.cached_property
    def _estimators(self: Any) -> tuple[Estimator, Estimator]:
        """The estimators of a draw: of its first fit, and of those that go on from it."""
        # a model that was pulled towards independence has too little dependence, and so would its draws
        domain, measurements = self.model.domain, self.estimates.measurements
        first = PLAIN
        if PLAIN.plan(domain, [each.clique for each in measurements]).oracle.forecast.work > _WIDE:
            pull = PULLED.fit(domain, measurements, self.estimates.total).regularisation
            weight = "none" if pull is None else _LEFT * pull.weight
            first = dataclasses.replace(PULLED, regularisation=weight)
        return first, dataclasses.replace(first, max_steps=_STEPS_AGAIN)

    @functools.cached_property
    def _last_drawn(self) -> dict[tuple[int, int, bool], list[GraphicalModel]]:
        """The models drawn last: who estimates one thing estimates more, and to fit draws takes seconds."""
        return {}

    def _drawn_models(self, draws: int, seed: int, *, people: bool) -> list[GraphicalModel]:
        """Return the models of draws of the noisy answers."""
        key = draws, checks.integer("seed", seed, low=0), bool(people)
        last = self._last_drawn
        found = last.get(key)
        if found is None:
            last.clear()  # they take memory too
            self._check_room(draws)
            found = self._fitted_draws(*key)
            last[key] = found
        return found

    def _check_room(self: Any, draws: int) -> None:
        """Refuse draws whose models do not fit in memory."""
        cells = sum(self.model.domain.size(each.clique) for each in self.estimates.measurements)
        one, free = cells * _BYTES_A_CELL, memory.available_bytes()
        if draws * one > free:
            raise ValueError(
                f"{draws:,} draws of {cells:,} measured cells need {memory.readable_bytes(draws * one)}, and "
                f"{memory.readable_bytes(free)} are free, enough for {free // one:,}: take no more."
            )

    def _fitted_draws(self: Any, draws: int, seed: int, people: bool) -> list[GraphicalModel]:
        """Fit the models of `_drawn_models`.

        A prior and public facts that the release's model was fitted to are no part of them: tables do not
        profit from these, and how far they moved the model counts as an error of an estimate.
        """
        domain, measurements, total = self.model.domain, self.estimates.measurements, self.estimates.total
        first, again = self._estimators

        def together(rows: _Rows, before: Sequence[GraphicalModel] | None) -> list[GraphicalModel]:
            if before is None:
                return [each.model for each in first.fit_batch(domain, rows, total)]
            totals = [one.total for one in before]
            return [each.model for each in again.fit_batch(domain, rows, totals, before)]

        return draws_of(self._about, measurements, draws, seed, fitted=together, people=people)

    def _rests_on_model(self: Any, asked: set[Query]) -> bool:
        """Return whether the noisy answers do not determine one of some queries.

        Raises:
            ValueError: nothing was measured of an attribute.
        """
        measured = self.estimates.measurements
        names = {name for query in asked for name in query.clique}
        if unknown := sorted(names.difference(*(each.clique for each in measured))):
            raise ValueError(
                f"Nothing that was measured tells of {', '.join(unknown)}: do not ask for it, or release "
                "with a mechanism that measures it."
            )
        return not all(map(self._is_determined, asked))

    def _is_determined(self: Any, query: Query) -> bool:
        """Return whether the noisy answers determine all answers to a query, as far as that is looked for."""
        names = {*query.clique}
        if any(each.query.is_identity and names <= {*each.clique} for each in self.estimates.measurements):
            return True
        if query.num_rows(self.model.domain) > _MOST_LOOKED_FOR:  # such as all cells of the table
            return False
        found = self.estimates.unbiased(query)  # a mechanism may have merged cells before it measured them
        return found is not None and bool(found.determined.all())


class _Watched:
    """A model that notes what it is asked for: the joint table of all for all but marginals and queries."""

    def __init__(self, model: GraphicalModel):
        self._model = model
        self.asked: set[Query] = set()

    def marginal(self, clique: Any, *more: Any, **given: Any) -> Any:
        self.asked.add(marginal(as_clique(self._model.domain, clique)))
        return self._model.marginal(clique, *more, **given)

    def answer(self, query: Any) -> Any:
        query = query_text.asked(self._model.domain, query)
        self.asked.add(query)
        return self._model.answer(query)

    def _rows(self, *given: Any) -> Any:
        raise TypeError(
            "The function gets a model and no rows: write, for example, lambda model: "
            "model.marginal(('age',))[0] / model.total, or take rows from release.tables(20)."
        )

    __getitem__ = __iter__ = __len__ = __array__ = _rows

    def __getattr__(self, name: str) -> Any:
        if name not in ("domain", "total"):
            self.asked.add(marginal(self._model.domain.attributes))
        return getattr(self._model, name)


def _numbers(value: Any) -> np.ndarray | None:
    """Return what a function returned as an array; None if it is not finite.

    Raises:
        TypeError: it is no number.
    """
    try:
        found = np.asarray(value)
    except ValueError:  # lists of several lengths
        found = np.asarray(None)
    if found.dtype.kind not in "iuf":
        what = "booleans" if found.dtype.kind == "b" else type(value).__name__
        raise TypeError(f"The function must return numbers, got {what}: one number, or an array of them.")
    return found.astype(np.float64) if np.isfinite(found).all() else None


def _values(
    function: Callable[[Any], Any], models: Sequence[GraphicalModel], centre: np.ndarray
) -> list[np.ndarray]:
    """Return a function's numbers for a fit and draws about it, in the shape of those of the release.

    Raises:
        ValueError: it has none for some of them, or some draws are `_FAR` as far from the fit as most are.
    """
    found: list[np.ndarray] = []
    reasons: dict[str, None] = {}
    for model in models:
        try:
            value = _numbers(function(model))
        except Exception as error:  # whatever a user's function raises is told by its name
            reasons[f"raises {type(error).__name__}"] = None
            continue
        if value is None or value.shape != centre.shape:
            reasons["is not finite" if value is None else "is of another shape"] = None
            continue
        found.append(value)
    if failed := len(models) - len(found):
        raise ValueError(
            f"The function {' or '.join(reasons)} for {failed} of {len(models)} fits, and has no standard "
            f"error: {_INSTEAD}."
        )
    distances = np.abs(np.stack(found[1:]) - found[0]).reshape(len(found) - 1, -1)
    # a count that most draws leave empty moves by many times next to nothing, and by no more than the total
    most = np.maximum(_FAR * np.median(distances, axis=0), models[0].total)
    far = int((distances > most).any(axis=1).sum())
    if far:
        raise ValueError(
            f"In {far} of {len(distances)} draws the function is more than {_FAR:,} times as far from its "
            "value as in most draws, as a ratio is whose denominator is near 0. It has no standard error: "
            f"{_INSTEAD}."
        )
    return found


def _with_rows(
    models: Sequence[GraphicalModel], seed: int, rows: int | None
) -> Iterator[tuple[GraphicalModel, dict[str, Any]]]:
    for number, model in enumerate(models):
        count = max(1, round(model.total)) if rows is None else rows
        yield model, decoded_rows(model, count, seed + 1 + number, INDEPENDENT)
