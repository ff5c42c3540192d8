"""PrivBayes: select a Bayesian network greedily and measure its marginals, with or without the engine.

`PrivBayes` proceeds attribute by attribute and selects the parents of each by a private score. The candidate
parents depend on public values only. A taxonomy may merge the values of parents, but not those of children.

A model is constructed from a network's noisy marginals by the paper's method or by the engine. Both use the
same measurements, in the network's order: the first as a joint table, every other one as the conditional of
its last attribute given the others.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import fit_of_chosen
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import check_selection
from pgmjax.mechanisms.mst import largest_tree
from pgmjax.mechanisms.run import Request, Run, Work, carry_measurements
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.exact import as_text, exact, split
from pgmjax.privacy.scores.bayes import BinaryF, MutualInformation, ParentScore, TotalVariation
from pgmjax.queries import AttributeQuery, Product, compression, identity, marginal
from pgmjax.queries.blocks import Merge
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release

SCORES: dict[str, type[ParentScore]] = {
    "I": MutualInformation,
    "F": BinaryF,
    "R": TotalVariation,
    **{score.kind: score for score in (MutualInformation, BinaryF, TotalVariation)},
}

_WALKED = 10  # sets looked at for each that is wanted, before sets are drawn instead
_WIDEST = 60  # attributes: with more, there are more sets than anybody wants

Noise = Callable[[int], Any]
"""The mean absolute noise of a cell (counts) as a function of the number of marginals."""

Parents = tuple[tuple[str, int], ...]
"""Attributes with a level of their taxonomy; 0 means not merged."""

Taxonomies = Mapping[str, tuple[tuple[int, ...], ...]]
"""Increasingly coarse maps by attribute, each with the group of every code."""


@dataclasses.dataclass(frozen=True)
class PrivBayes(Mechanism):
    """Select a Bayesian network greedily and measure its marginals.

    Attributes join the network one at a time. Each gets the parents among the earlier ones with the best
    noisy score. A marginal may be measured only if it is theta-useful, i.e. its average cell is at least
    `theta` times the mean absolute noise. That bounds the number of parents if all attributes are binary (or
    `degree` is given), and the cells of a marginal otherwise.

    Args:
        structure_share: the share of the budget for selecting parents, in (0, 1), exact.
        theta: the required usefulness of a marginal, > 0.
        score: "R" or "total-variation", "I" or "mutual-information", "F" or "binary-f". The last one is
            for attributes with two values only.
        degree: number of parents. Default: the most that are theta-useful.
        taxonomies: a list of increasingly coarse maps by attribute, each the group of every code. Parents
            may then have merged values. They must be public and cannot be combined with `degree`.
        estimate: "engine" fits a model to the measurements, "paper" clips and normalises them to
            conditionals. `paper_model` computes the paper's from any release.
        first: the attribute that the network starts with. Default: the domain's first.
        max_candidates: the largest number of candidate sets of parents in one selection; more are thinned.
        max_cells: the largest number of cells of the model's junction tree; candidates above it are dropped.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range, or the relation is not replace-one.

    Guarantees:
        As `Marginals`, under REPLACE_ONE. Selections have `structure_share` of the budget in equal parts, and
        the remaining budget is divided equally among the marginals, so that all sum exactly to the budget. A
        selection without parents or with a single candidate costs nothing. The number of records is public.

    References:
        Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, "PrivBayes"; McKenna et al. 2019, section 4.

    Example:
        >>> PrivBayes(epsilon=1, relation=Relation.REPLACE_ONE, score="I").score
        'mutual-information'
    """

    structure_share: Any = Fraction(3, 10)
    theta: Any = 4
    score: str = "total-variation"
    degree: int | None = None
    taxonomies: Any = None
    estimate: str = "engine"
    first: str | None = None
    max_candidates: int = 2000
    max_cells: int = 4_000_000

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = (
        "choose a Bayesian network privately, measure its marginals, fit or multiply them"
    )
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "theta": (4, "1/10"),
        "score": ("R", "I", "F"),
        "degree": (None, 0, 1),
        "taxonomies": (None,),
        "estimate": ("engine", "paper"),
        "first": (None, "b"),
        "max_candidates": (2000, 2),
        "max_cells": (4_000_000, 40),
    }
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    accepts_weights: ClassVar[bool] = False
    restriction: ClassVar[str] = (
        "its scores divide by the number of records, which must be public. Use replace-one and no weights, "
        "or another mechanism."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_shares("structure_share")
        given: dict[str, Any] = {
            "theta": exact("theta", self.theta),
            "score": SCORES[checks.choice("score", self.score, tuple(SCORES))].kind,
            "taxonomies": read_taxonomies(self.taxonomies),
        }
        if given["theta"] <= 0:
            raise ValueError(f"theta must be > 0, got {as_text(given['theta'])}.")
        if self.degree is not None:
            checks.set_integers(self, "degree", low=0)
            if given["taxonomies"]:
                raise ValueError("taxonomies serve to bound the cells of a marginal: leave out the degree.")
        checks.set_choice(self, "estimate", ("engine", "paper"))
        checks.set_integers(self, "max_candidates", "max_cells", low=1)
        self._set(**given)

    def plan(self, request: Request) -> AttributeLevels:
        """Return the levels of the attributes."""
        domain = request.domain
        if self.first is not None and self.first not in domain:
            raise ValueError(f"first must be an attribute of the domain, got {self.first!r}.")
        if self.degree is not None and self.degree >= len(domain):
            raise ValueError(
                f"degree must be below the number of attributes, {len(domain)}, got {self.degree}."
            )
        if self.score == SCORES["F"].kind and set(domain.shape) != {2}:
            raise ValueError(
                "the score binary-f is for tables whose attributes all have two values: use total-variation "
                "or mutual-information."
            )
        levels = AttributeLevels(domain, self.taxonomies)
        check_model_memory(domain, request.workload, request.estimator, self.max_cells)
        return levels

    def describe(self, plan: AttributeLevels) -> dict[str, Any]:
        """Return the settings that measurements depend on, without the choice of `estimate`."""
        settings = super().describe(plan)
        del settings["estimate"]
        maps = {name: [list(each) for each in levels] for name, levels in self.taxonomies.items()}
        return {**settings, "taxonomies": maps}

    def work(self, request: Request, plan: AttributeLevels) -> Work:
        """Return the work of scoring pairs, and measuring the largest tree of them."""
        domain = request.domain
        pairs = list(itertools.combinations(domain.attributes, 2))
        fitted = (*((name,) for name in domain.attributes), *largest_tree(domain, ()))
        counts, compared = sum(map(domain.size, fitted)), sum(map(domain.size, pairs))
        return Work(fitted, counts, tuple(pairs), compared)

    def execute(self, run: Run) -> Release:
        """Choose the network, measure its marginals, and fit or multiply them."""
        # GreedyBayes (Algorithms 2 and 4): attributes join the network with the parents of the best score.
        network = self._network(run)
        # NoisyConditionals (Algorithms 1 and 3): measure a marginal of each attribute and its parents.
        queries = [run.plan.query(each) for each in network]
        measurements = run.measure(queries, run.budget.split([1] * len(queries)))
        # The paper divides these marginals into conditionals; the engine fits them.
        if self.estimate == "engine":
            return run.release(measurements, fit_of_chosen(run, measurements))
        count, estimator = run.table.public_count(), run.estimator
        return run.release(measurements, conditional_fit(run.request.domain, measurements, count, estimator))

    def _network(self, run: Run) -> list[Candidate]:
        """Return the marginals to measure, in the order in which the attributes joined.

        With a degree the network's first marginals are omitted, since all of their attributes are in the
        first one of full degree.

        Raises:
            ValueError: no noise can be drawn for the budget; nothing was spent.
        """
        domain, budget, records = run.request.domain, run.budget, run.table.public_count()
        first = domain.attributes[0] if self.first is None else self.first
        network, rest = [Candidate(first)], [name for name in domain if name != first]
        if not rest:
            return network
        noise = mean_noise((1 - self.structure_share) * budget.cap, budget.unit)
        theta, attributes = self.theta, len(domain)
        degree, cells = self.degree, useful_cells(records, attributes, theta, noise)
        if degree is None and set(domain.shape) == {2}:
            degree = useful_degree(records, attributes, theta, noise)
        share, others = budget.split([self.structure_share, 1 - self.structure_share])
        costs = split(share, [1] * len(rest))
        marginals = [others / attributes, budget.cap / (attributes - (degree or 0))]  # the least and the most
        self._check_amounts(run.request, records, costs[0], marginals)
        with Progress("choosing parents", len(costs), run.show_progress) as progress:
            for cost in costs:
                chosen = [each.child for each in network]
                if degree is None:
                    found = parents_of_cells(run.plan, chosen, rest, cells, self.max_candidates)
                else:
                    found = parents_of_degree(chosen, rest, degree, self.max_candidates)
                found = candidates_that_fit(domain, network, found, self.max_cells)
                network.append(found[self._choose(run, found, cost, records)])
                rest.remove(network[-1].child)
                progress.advance()
        holds_all = degree is not None and len(network[degree].parents) == degree
        return network[degree:] if holds_all else network

    def _choose(self, run: Run, candidates: Sequence[Candidate], cost: Fraction, records: int) -> int:
        if len(candidates) == 1 or not any(each.parents for each in candidates):
            return 0  # nothing to find out
        return run.select(SCORES[self.score](list(map(run.plan.query, candidates)), records), cost)

    def _check_amounts(
        self, request: Request, records: int, choice: Fraction, marginals: Sequence[Fraction]
    ) -> None:
        """Check before spending that noise can be drawn for a selection and for marginals of these costs."""
        largest = marginal(sorted(request.domain, key=request.domain.__getitem__)[-2:])
        moved = SCORES[self.score]([largest], records).sensitivity(request.domain, request.relation)
        check_selection(moved.of_unit(request.max_records).value, request.budget.unit, choice)
        for cost in marginals:
            request.noise([largest], cost)


def parents_of_degree(chosen: Sequence[str], rest: Sequence[str], degree: int, most: int) -> list[Candidate]:
    """Return every child with every set of `degree` parents, or with all of `chosen` if there are fewer.

    Args:
        chosen: the attributes in the network.
        rest: the other attributes.
        degree: the number of parents.
        most: the largest number of candidates. More are thinned to the same number of sets per child.
    """
    size = min(degree, len(chosen))
    if math.comb(len(chosen), size) * len(rest) <= most:
        sets: list[Sequence[str]] = list(itertools.combinations(chosen, size))
        return [Candidate(child, tuple((name, 0) for name in each)) for child in rest for each in sets]
    draw = random.generator(len(chosen))
    found = []
    for child in rest:
        drawn = (sorted(draw.permutation(len(chosen))[:size].tolist()) for _ in itertools.count())
        sets = [[chosen[i] for i in places] for places in _distinct(map(tuple, drawn), _quota(rest, most))]
        found += [Candidate(child, tuple((name, 0) for name in each)) for each in sets]
    return found


def parents_of_cells(
    levels: AttributeLevels, chosen: Sequence[str], rest: Sequence[str], cells: int, most: int
) -> list[Candidate]:
    """Return every child with every maximal set of parents for which their table has at most `cells` cells.

    A set is maximal if no parent can be added or taken at a finer level. A child that alone exceeds the
    limit has no parents.

    Args:
        levels: the attributes with their taxonomies.
        chosen: the attributes in the network.
        rest: the other attributes.
        cells: the largest number of cells of parents and child together.
        most: the largest number of candidates. More are thinned to the same number of sets per child.

    References:
        Zhang et al. 2017, "PrivBayes", Algorithms 5 and 6.
    """
    sizes = {name: levels.sizes(name) for name in chosen}
    rooms = {child: max(cells // levels.domain[child], 1) for child in rest}
    quota = _quota(rest, most)
    sets: dict[int, list[Parents]] = {}
    for room in set(rooms.values()):
        near = {name: size for name, size in sizes.items() if min(size) <= room}
        found = None if len(near) > _WIDEST else _all(near, room, most)
        sets[room] = _drawn(near, room, quota) if found is None else found
    if sum(len(sets[room]) for room in rooms.values()) > most:
        draw = random.generator(len(chosen))
        for room, found in sets.items():
            kept = sorted(draw.permutation(len(found))[:quota].tolist())
            sets[room] = [found[i] for i in kept]
    return [Candidate(child, parents) for child in rest for parents in sets[rooms[child]]]


def candidates_that_fit(
    domain: Domain, network: Sequence[Candidate], candidates: Sequence[Candidate], cells: int
) -> list[Candidate]:
    """Return the candidates with which a model of the network has at most `cells` cells.

    A child without such a candidate is returned without parents.
    """
    grown = candidate_cells(domain, [each.clique for each in network], [c.clique for c in candidates])
    kept = [each for each, size in zip(candidates, grown.tolist(), strict=True) if size <= cells]
    served = {each.child for each in kept}
    return kept + [
        Candidate(child) for child in dict.fromkeys(c.child for c in candidates) if child not in served
    ]


def mean_noise(part: Fraction, unit: str) -> Noise:
    """Return the mean absolute noise of a cell if a part of a budget is divided among marginals."""
    if unit == "epsilon":
        return lambda marginals: Fraction(2 * marginals) / part
    # Gaussian noise of variance m / rho, the mean of whose size is sqrt(2 / pi) standard deviations
    return lambda marginals: Fraction(math.sqrt(2 * marginals / (math.pi * part)))


def useful_degree(records: int, attributes: int, theta: Fraction, noise: Noise) -> int:
    """Return the largest number k of parents for which binary marginals are theta-useful, 0 if none are.

    Args:
        records: the public number n of records.
        attributes: the number d of attributes.
        theta: the required ratio of the average cell, n / 2^(k+1) records, to the mean absolute noise.
        noise: the mean absolute noise as a function of the number of marginals.

    Example:
        >>> useful_degree(5_000, 10, Fraction(4), lambda marginals: Fraction(2 * marginals))
        6
    """
    degrees = range(min(attributes, 60))
    return max((k for k in degrees if records >= theta * noise(attributes - k) * 2 ** (k + 1)), default=0)


def useful_cells(records: int, attributes: int, theta: Fraction, noise: Noise) -> int:
    """Return the most cells of a theta-useful marginal, where each attribute has one; see `useful_degree`."""
    return math.floor(records / (theta * noise(attributes)))


def maximal_sets(sizes: Mapping[str, tuple[int, ...]], room: int) -> Iterator[Parents | None]:
    """Yield the maximal sets of parents of at most `room` cells, and None for each other set looked at."""
    names = list(sizes)

    def walk(place: int, taken: Parents, cells: int) -> Iterator[Parents | None]:
        if place == len(names):
            yield taken if _is_maximal(sizes, dict(taken), cells, room) else None
            return
        name = names[place]
        for level, size in enumerate(sizes[name]):
            if cells * size <= room:
                yield from walk(place + 1, (*taken, (name, level)), cells * size)
        yield from walk(place + 1, taken, cells)

    return walk(0, (), 1)


def _is_maximal(sizes: Mapping[str, tuple[int, ...]], taken: dict[str, int], cells: int, room: int) -> bool:
    for name, options in sizes.items():
        level = taken.get(name, len(options))
        now = options[level] if level < len(options) else 1
        if level and cells // now * options[level - 1] <= room:
            return False
    return True


def _all(sizes: Mapping[str, tuple[int, ...]], room: int, most: int) -> list[Parents] | None:
    """Return all maximal sets, or None if there are too many to enumerate."""
    looked = list(itertools.islice(maximal_sets(sizes, room), _WALKED * most + 1))
    return None if len(looked) > _WALKED * most else [each for each in looked if each is not None]


def _drawn(sizes: Mapping[str, tuple[int, ...]], room: int, quota: int) -> list[Parents]:
    """Return random maximal sets: attributes in random order, each at the finest level that fits."""
    draw = random.generator(room)
    names = list(sizes)

    def one() -> Parents:
        cells, taken = 1, {}
        for place in draw.permutation(len(names)).tolist():
            name = names[place]
            level = next((i for i, size in enumerate(sizes[name]) if cells * size <= room), None)
            if level is not None:
                taken[name] = level
                cells *= sizes[name][level]
        return tuple((name, taken[name]) for name in names if name in taken)

    return _distinct((one() for _ in itertools.count()), quota)


def _distinct(drawn: Iterator[Any], quota: int) -> list[Any]:
    """Return `quota` distinct items of an infinite stream, or fewer if they repeat too often."""
    return list(dict.fromkeys(itertools.islice(drawn, 4 * quota)))[:quota]


def _quota(rest: Sequence[str], most: int) -> int:
    return max(1, most // len(rest))


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A child with its parents, each an attribute and a level of its taxonomy (0: as it is)."""

    child: str
    parents: Parents = ()

    @property
    def clique(self) -> Clique:
        """Parents, then the child."""
        return (*(name for name, _ in self.parents), self.child)


@dataclasses.dataclass(frozen=True)
class AttributeLevels:
    """The attributes with their taxonomies.

    Args:
        domain: the attributes.
        taxonomies: increasingly coarse maps by attribute, each with the group of every code.

    Raises:
        ValueError: an attribute is unknown, or a map is not coarser than the previous one.
    """

    domain: Domain
    taxonomies: Taxonomies

    def __post_init__(self) -> None:
        for name, maps in self.taxonomies.items():
            finer: Sequence[int] = range(self.domain[name])
            for groups in maps:
                _check_coarser(name, finer, groups)
                finer = groups

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return the number of values at each level, the finest first."""
        return (self.domain[name], *(max(groups) + 1 for groups in self.taxonomies.get(name, ())))

    def query(self, candidate: Candidate) -> Product:
        """Return the query that counts parents' values against the child's."""
        blocks: dict[str, AttributeQuery] = {}
        for name, level in candidate.parents:
            blocks[name] = compression(self.taxonomies[name][level - 1]) if level else identity()
        return Product({**blocks, candidate.child: identity()})


def read_taxonomies(given: Any) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return taxonomies as tuples of integers.

    Raises:
        TypeError: no mapping of names to lists of lists of integers.
    """
    if given is None:
        return {}
    checks.kind(given, Mapping, "taxonomies must map attribute names to lists of maps")
    said = "a map of the taxonomy of"
    return {
        name: tuple(
            tuple(checks.integer(f"a group in {said} {name!r}", group, low=0) for group in groups)
            for groups in (checks.several(f"{said} {name!r}", each, "groups") for each in maps)
        )
        for name, maps in ((n, checks.several(f"the taxonomy of {n!r}", m, "maps")) for n, m in given.items())
    }


def _check_coarser(name: str, finer: Sequence[int], groups: Sequence[int]) -> None:
    if len(groups) != len(finer):
        raise ValueError(
            f"a map of the taxonomy of {name!r} must give the group of each of its {len(finer)} codes, got "
            f"{len(groups)} groups."
        )
    number = len(set(groups))
    if number != max(groups) + 1 or number < 2:
        raise ValueError(
            f"the groups of a map of the taxonomy of {name!r} must be 0..g-1, at least 2 of them."
        )
    if number >= len(set(finer)) or len(set(zip(finer, groups, strict=True))) != len(set(finer)):
        raise ValueError(
            f"each map of the taxonomy of {name!r} must merge groups of the one before, got {number} groups "
            f"after {len(set(finer))}: give maps from fine to coarse."
        )


def check_model_memory(domain: Domain, workload: Workload, estimator: Estimator, max_cells: int) -> None:
    """Check that the workload's answers and the model fit in the estimator's memory. Reads no table.

    Args:
        domain: the attributes.
        workload: the workload.
        estimator: the estimator that fits the model.
        max_cells: the largest number of cells of the model's junction tree.

    Raises:
        ModelTooLargeError: they do not fit. The message gives the sizes (a ValueError).
    """
    limit = available_bytes() if estimator.max_bytes is None else estimator.max_bytes
    answers = workload.num_queries(domain)
    if 8 * answers > limit:
        raise ModelTooLargeError(
            f"The workload's {answers:,} answers need {readable_bytes(8 * answers)} and "
            f"{readable_bytes(limit)} is available: ask for smaller marginals."
        )
    cells = min(max_cells, domain.size())
    try:
        estimator.plan(Domain({"junction tree": cells}), [("junction tree",)])
    except ModelTooLargeError as error:
        raise ModelTooLargeError(f"max_cells allows models of {cells:,} cells. {error}") from error


def conditional_fit(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, estimator: Estimator
) -> Fit:
    """Return the paper's model as the result of a fit without steps.

    Its loss is the squared loss, and its gap is the loss itself, since no loss is below 0. The estimator is
    used only to plan the cliques.

    Raises:
        FitError: the model failed. The error carries the measurements, whose cost is spent.
    """
    with carry_measurements(measurements):
        model = network_model(domain, measurements, total)
        loss = sum(_loss(model, measured) for measured in measurements)
        plan = estimator.plan(domain, [measured.clique for measured in measurements])
    return Fit(model, Status.MAX_STEPS, 0, loss, loss, plan)


def network_model(domain: Domain, measurements: Sequence[LinearMeasurement], total: float) -> GraphicalModel:
    """Return the Bayesian network whose conditionals are the clipped and normalised measurements.

    Negative counts are set to zero and every row normalised; a row without positive counts is uniform.
    Rows drawn from the model are the ancestral samples of the PrivBayes paper.

    Args:
        domain: the attributes.
        measurements: counts of parents (as they are or merged) against a child, the child last, in an order
            in which parents come before their children; of the first all attributes count as new.
        total: number of records (counts).

    Raises:
        ValueError: a measurement of something else, or not exactly one for each attribute.

    References:
        Zhang et al. 2017, "PrivBayes", Algorithms 1 and 3.
    """
    potentials: dict[tuple[str, ...], np.ndarray] = {}
    known: set[str] = set()
    for place, measured in enumerate(measurements):
        *parents, child = measured.clique
        if not isinstance(measured.query, Product) or child in known or (place and not known >= set(parents)):
            raise ValueError(
                f"measurement {place} on {measured.clique} is no part of a Bayesian network: parents come "
                "first and are known, the child comes last and is new."
            )
        known |= set(measured.clique)
        counts = np.maximum(measured.flat_values(), 0).reshape(measured.query.shape(domain))
        table = _normalised(counts, tuple(range(counts.ndim)) if place == 0 else (counts.ndim - 1,))
        with np.errstate(divide="ignore"):
            potentials[measured.clique] = _as_fine(np.log(table), measured.query)
    if known != set(domain):
        raise ValueError(
            f"the measurements name {len(known)} of {len(domain)} attributes: no network of all."
        )
    return GraphicalModel.from_potentials(domain, potentials, total)


def paper_model(release: Release) -> GraphicalModel:
    """Return the PrivBayes paper's model of a release's measurements, however it was fitted.

    Raises:
        ValueError: the release is of another mechanism.
    """
    checks.kind(release, Release, "release must be a Release")
    if release.mechanism != "privbayes":
        raise ValueError(
            f"expected a release of the mechanism 'privbayes', got one of {release.mechanism!r}."
        )
    return network_model(release.domain, release.measurements, release.model.total)


def _loss(model: GraphicalModel, measured: LinearMeasurement) -> float:
    missed = model.answer(measured.query).reshape(-1) - measured.flat_values()
    return 0.5 * float(np.sum((missed / measured.row_stddevs()) ** 2))


def _normalised(counts: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    sums = counts.sum(axis=axes, keepdims=True)
    cells = np.prod([counts.shape[axis] for axis in axes])
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1), 1 / cells)


def _as_fine(table: np.ndarray, query: Product) -> np.ndarray:
    """A table over merged values as one over the values themselves."""
    for axis, block in enumerate(query.blocks):
        if isinstance(block, Merge):
            table = np.take(table, block.groups.array, axis=axis)
    return table
