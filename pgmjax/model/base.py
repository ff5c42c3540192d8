"""`Model`, the questions that every fitted model answers, and `NamedMarginals`, its counts by names.

Factored queries are answered by contracting their factors into the model. The factor of an attribute is added
as a table over the attribute and the query's rows, so that the attribute is summed out as early as possible
and the marginal is never built. Tables are in log space. A factor with negative entries is split into its
positive and negative parts, which are contracted separately and then subtracted.

References:
    McKenna et al. 2019, Algorithm 3 (Appendix B).
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute, Code, code_of
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.forecast import USUAL
from pgmjax.inference.plan.structure import Variables
from pgmjax.measurements.inputs import Input
from pgmjax.queries import AttributeQuery, DenseMatrix, Query
from pgmjax.queries import text as query_text

MOST_ROWS = 10**12


@runtime_checkable
class Model(Protocol):
    """A fitted model: `GraphicalModel`, `RegionModel` and `MixtureModel` have these members.

    Code that only asks for marginals and answers takes a `Model`. All three have `sample`. `GraphicalModel`
    and `MixtureModel` also have a distribution: `condition` and `log_partition`; the marginals of a
    `RegionModel` may be those of no table, and its rows come near them.

    Example:
        >>> import pgmjax as pj
        >>> model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 2, "b": 3}), {}, total=6.0)
        >>> isinstance(model, Model), model.marginal(("b",)).tolist()
        (True, [2.0, 2.0, 2.0])
    """

    @property
    def domain(self) -> Domain:
        """The attributes."""

    @property
    def total(self) -> float:
        """The number of records (counts)."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that it was computed from, with cost and security."""

    @overload
    def marginal(self, clique: Clique, labelled: Literal[False] = False) -> np.ndarray: ...

    @overload
    def marginal(self, clique: Clique, labelled: Literal[True]) -> Any: ...

    def marginal(self, clique: Clique, labelled: bool = False) -> Any:
        """Return the expected counts of some attributes, float64, with axes in the order of the names.

        Args:
            clique: attribute names; `()` gives the total.
            labelled: return a pandas Series instead, whose index has the labels; see `labelled_counts`.
        """

    def answer(self, query: Query) -> np.ndarray:
        """Return the expected answers to a linear query (counts times the query's unit), in its shape."""

    def save(self, folder: Any) -> None:
        """Save to a folder that `pgmjax.load` reads."""


class NamedMarginals(Named):
    """Base of models: the counts of some attributes by their names."""

    domain: Domain
    total: float

    @abc.abstractmethod
    def _probabilities(self, clique: Clique) -> np.ndarray:
        """The distribution of some attributes [size of each]; their names were checked."""

    __getitem__ = instead(
        "A model is asked for the counts of some attributes: write model.marginal(('age', 'sex'))."
    )

    @overload
    def marginal(self, clique: Clique, labelled: Literal[False] = False) -> np.ndarray: ...

    @overload
    def marginal(self, clique: Clique, labelled: Literal[True]) -> Any: ...

    def marginal(self, clique: Clique, labelled: bool = False) -> Any:
        """Expected counts of any attributes of the domain.

        Args:
            clique: attribute names, `()` for the total; the axes follow their order. A `RegionModel` knows
                those of attributes within a region, and approximates all others.
            labelled: return a pandas Series instead, whose index has the labels; see
                `model.base.labelled_counts`.

        Returns:
            Counts [size of each attribute], float64; they sum to `total`.

        Raises:
            TypeError: the clique is not a tuple of names.
            ValueError: an unknown or repeated attribute, or a table larger than memory.
        """
        if isinstance(clique, tuple | list) and not clique:
            return np.array(float(self.total))
        names = as_clique(self.domain, clique)
        counts = self.total * self._probabilities(names)
        checks.kind(
            labelled, bool, "labelled must be True or False", "several names are one tuple, ('age', 'sex')"
        )
        return labelled_counts(self.domain, names, counts) if labelled else counts

    def _number_of_rows(self, rows: int | None) -> int:
        """The number of rows to draw: as many as records if none is given."""
        return checks.integer("rows", round(self.total) if rows is None else rows, 0, MOST_ROWS)


def labelled_counts(domain: Domain, clique: Clique, counts: np.ndarray) -> Any:
    """Return counts of cells as a pandas Series, named `count`, whose index has an attribute's labels.

    Args:
        domain: the attributes.
        clique: attribute names.
        counts: of their cells [size of each attribute].

    Returns:
        The counts, float64 [cells]. Its index is that of one attribute, or a MultiIndex of several, under
        their names: labels as they are given, bins and dates by the names of their cells, codes where there
        is neither, and "missing".

    Raises:
        ImportError: pandas is not installed.

    Example:
        >>> domain = Domain({"sex": {"labels": ["F", "M"]}, "age": {"min": 0, "max": 39, "step": 20}})
        >>> counts = labelled_counts(domain, ("sex", "age"), np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> float(counts["M", "0 to 19"]), counts.groupby("sex").sum().to_dict()
        (3.0, {'F': 3.0, 'M': 7.0})
    """
    pandas = checks.optional("pandas", extra="demo")
    values = [_labels(domain.attribute(name)) for name in clique]
    if len(clique) == 1:
        index = pandas.Index(values[0], name=clique[0])
    else:
        index = pandas.MultiIndex.from_product(values, names=list(clique))
    return pandas.Series(np.asarray(counts, np.float64).reshape(-1), index, name="count")


def _labels(attribute: Attribute) -> list[Any]:
    """Return what each code of an attribute stands for: labels as they are, names of the other codes."""
    names: list[Any] = list(attribute.code_names())
    if attribute.labels is not None:
        names[: len(attribute.labels)] = attribute.labels
    elif attribute.bins is None:
        regular = attribute.size - attribute.missing
        names[:regular] = range(regular)
    return names


Part = TypeVar("Part")


def answer(
    domain: Domain, host: HostModel, numbers: Callable[[Clique], Variables], query: Query
) -> np.ndarray:
    """Expected answers to a query for one record, in the query's shape.

    Args:
        domain: the attributes.
        host: the model.
        numbers: maps attribute names to variables of the model.
        query: the query.
    """
    USUAL.require_cells(query.num_rows(domain), "the answer")
    if isinstance(query, DenseMatrix):
        USUAL.require_cells(domain.size(query.clique), f"the marginal of {query.clique}")
        return np.asarray(query.apply(host.marginal(numbers(query.clique))))
    result = np.zeros(query.shape(domain))
    for coefficient, factors in query.factors(domain):
        blocks = [(name, factors[name]) for name in query.clique]
        result += coefficient * _product(domain, host, numbers, blocks)
    return result


def _product(
    domain: Domain,
    host: HostModel,
    numbers: Callable[[Clique], Variables],
    blocks: list[tuple[str, AttributeQuery]],
) -> np.ndarray:
    """Answers to one Kronecker product [rows of each block]."""
    output: list[int] = []
    options: list[list[tuple[int, np.ndarray, Variables]]] = []  # signed log-tables of each factor
    new = len(host.structure.sizes)
    for name, block in blocks:
        (variable,) = numbers((name,))
        if block.kind == "identity":
            output.append(variable)
            continue
        USUAL.require_cells(block.rows(domain[name]) * domain[name], f"the query's matrix on {name!r}")
        matrix = block.matrix(domain[name]).astype(np.float64)
        signs = (1, -1) if (matrix < 0).any() else (1,)
        with np.errstate(divide="ignore"):
            options.append([(s, np.log(np.maximum(s * matrix, 0)), (new, variable)) for s in signs])
        output.append(new)
        new += 1
    shape = tuple(block.rows(domain[name]) for name, block in blocks)
    result = np.zeros(shape)
    for parts in itertools.product(*options):
        extra = [(table, variables) for _, table, variables in parts]
        logs = host.log_sum(tuple(output), extra) - host.log_partition
        result += math.prod(sign for sign, _, _ in parts) * np.exp(logs)
    return result


def contradicting(parts: Sequence[Part], impossible: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """The fewest parts, in the sense that none can be left out, that are impossible together.

    Args:
        parts: impossible all together.
        impossible: whether some of them are; if some parts are impossible, more parts are, too.

    References:
        Junker, QuickXplain: preferred explanations and relaxations for over-constrained problems, AAAI 2004.

    Example:
        >>> contradicting([1, 5, 2, 7, 3], lambda some: {5, 7} <= set(some))
        [5, 7]
    """

    def needed(before: Sequence[Part], added: bool, some: Sequence[Part]) -> list[Part]:
        if added and impossible(before):
            return []
        if len(some) == 1:
            return list(some)
        left, right = some[: len(some) // 2], some[len(some) // 2 :]
        late = needed([*before, *left], bool(left), right)
        early = needed([*before, *late], bool(late), left)
        return early + late

    return [] if impossible([]) else needed([], False, list(parts))


def evidence_masks(domain: Domain, evidence: Any) -> dict[str, np.ndarray]:
    """Log-mask [size] of each attribute: 0 for values that agree with the evidence, minus infinity elsewhere.

    Args:
        domain: the attributes.
        evidence: for each attribute a value, as `data.attribute.code_of` reads it, or a list of these; or
            conditions as text, such as "sex=F,age<35".

    Raises:
        TypeError: the evidence is not a mapping.
        ValueError: an attribute is unknown or named twice, a value is outside its domain, or there is none.
    """
    if isinstance(evidence, str):
        found = query_text.conditions(evidence, domain).codes
        evidence = {name: [*map(Code, codes)] for name, codes in found.items()}
    checks.mapping("evidence", evidence, "attribute to value, such as {'sex': 'F'}")
    masks: dict[str, np.ndarray] = {}
    for given, wanted in evidence.items():
        name = checks.same_word(given, domain)
        if name is None or name in masks:
            listed = ", ".join([*domain][:12])
            wrong = "twice" if name else f"which is not an attribute of the domain; it has {listed}"
            raise ValueError(f"evidence names {given!r}, {wrong}.{checks.did_you_mean(given, domain)}")
        many = isinstance(wanted, list | tuple | set | frozenset | range) or np.ndim(wanted) == 1
        codes = [
            code_of(domain.attribute(name), value, "evidence") for value in (wanted if many else [wanted])
        ]
        if not codes:
            raise ValueError(f"evidence on {name!r} allows no value: name at least one.")
        masks[name] = np.full(domain[name], -np.inf)
        masks[name][codes] = 0.0
    return masks


def log_evidence(
    domain: Domain, host: HostModel, numbers: Callable[[Clique], Variables], evidence: Any
) -> float:
    """Log of the sum of the unnormalised distribution over the states that agree with evidence (nats).

    The tables are restricted to the values that agree.

    Raises:
        TypeError: the evidence is not a mapping.
        ValueError: as in `evidence_masks`.
    """
    masks = evidence_masks(domain, evidence)
    allowed = {numbers((name,))[0]: np.flatnonzero(mask == 0) for name, mask in masks.items()}
    return host.log_evidence(allowed)
