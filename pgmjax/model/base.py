"""`Model`, what every fitted model answers, and `Distribution`, a model with probabilities of evidence.

`NamedMarginals` has counts by names only, as a calibrated model does.
"""

from __future__ import annotations

import abc
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar, overload

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.formats import Format
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute, Code, code_of
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.inference.oracles.host import USUAL
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.inputs import Input, marks
from pgmjax.queries import DenseMatrix
from pgmjax.queries.blocks import AttributeQuery

MOST_ROWS = 10**12


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


class Model(NamedMarginals):
    """Base of fitted models: `GraphicalModel`, `RegionModel` and `MixtureModel` have these members.

    Code that only asks for marginals and answers takes a `Model`. All three have `sample`. `GraphicalModel`
    and `MixtureModel` also have a distribution: `condition` and `log_partition`; the marginals of a
    `RegionModel` may be those of no table, and its rows come near them.

    Attributes:
        domain: the attributes.
        total: number of records (counts).
        inputs: what it was computed from, with cost and security.

    Example:
        >>> import pgmjax as pj
        >>> model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 2, "b": 3}), {}, total=6.0)
        >>> isinstance(model, Model), model.marginal(("b",)).tolist()
        (True, [2.0, 2.0, 2.0])
    """

    inputs: tuple[Input, ...]
    _format: ClassVar[Format]

    @abc.abstractmethod
    def _stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The fields and arrays that `save` writes beside domain, total and inputs."""

    @abc.abstractmethod
    def _row_blocks(
        self, rows: int, seed: int, method: str | None, device: bool, mesh: Any, show_progress: bool | None
    ) -> Iterator[list[np.ndarray]]:
        """Blocks of rows: codes of each attribute."""

    def answer(self, query: Any) -> np.ndarray:
        """Answer a linear query from the marginal of its attributes.

        Args:
            query: a query of `pgmjax.queries` over any attributes of the domain, or its text.

        Returns:
            Expected answers (counts times the query's unit), in the query's shape.
        """
        from pgmjax.queries import text  # of questions alone

        query = text.asked(self.domain, query)
        return np.asarray(query.apply(self.marginal(query.clique)), np.float64)

    def save(self, folder: Any) -> None:
        """Save to a folder as `model.npz` and `model.json`, without pickle.

        Args:
            folder: path of a new folder. Read the model back with `pgmjax.load`.

        Raises:
            ValueError: the folder exists.
        """
        from pgmjax.model import io  # which a fit does without

        fields, arrays = self._stored()
        io.write(self._format, folder, self, fields, arrays)

    def _number_of_rows(self, rows: int | None) -> int:
        """The number of rows to draw: as many as records if none is given."""
        return checks.integer("rows", round(self.total) if rows is None else rows, 0, MOST_ROWS)

    def sample_to(
        self,
        path: str | os.PathLike[str],
        rows: int | None = None,
        seed: int = 0,
        *,
        method: str | None = None,
        device: bool = False,
        mesh: Any = None,
        decode: bool | str = False,
        overwrite: bool = False,
        show_progress: bool | None = None,
        escape_formulas: bool = False,
    ) -> pathlib.Path:
        """Draw synthetic rows directly to a file: any number of them in bounded memory.

        Args:
            path: of the file, .parquet or .csv. The file is either complete or absent: an interrupt
                leaves nothing behind.
            rows: number of rows. Default: the rounded total.
            seed: the same seed gives the same rows as in `sample`.
            method: as in `sample`.
            device: as in `sample`; rows of regions, which are moved together, take neither this nor a mesh.
            mesh: as in `sample`.
            decode: False writes codes. True writes names: labels, bins as text, null where missing.
                "values" writes rows as a table of the domain holds them: labels as they are, numbers drawn
                uniformly within their bin (on the attribute's grid, if it has one), dates, null where
                missing. The codes are the same, since these draws have a generator of their own.
            overwrite: replace an existing file.
            show_progress: None shows a bar in terminals and notebooks only, False never.
            escape_formulas: in CSV, put an apostrophe before labels that a spreadsheet may take for formulas:
                those that begin with `=`, `+`, `-` or `@` and are no numbers.

        Returns:
            The path.

        Raises:
            ValueError: an invalid argument, wrong extension, existing file, or missing folder; raised
                before any row is drawn.
        """
        checks.kind(
            path, str | os.PathLike, "path must be the name of a file", 'write sample_to("rows.csv", 10)'
        )
        from pgmjax.model import row_file  # which a fit does without

        rows = self._number_of_rows(rows)
        return row_file.write(
            path,
            self.domain,
            self._row_blocks(rows, seed, method, device, mesh, show_progress),
            rows,
            decode=decode,
            seed=seed,
            overwrite=overwrite,
            show_progress=show_progress,
            metadata=marks(self.inputs),
            escape_formulas=escape_formulas,
        )


class Distribution(Model):
    """Base of models that have a distribution: the probability of evidence, and the model given evidence."""

    @abc.abstractmethod
    def _log_weight(self, masks: Mapping[str, np.ndarray]) -> float:
        """Log of the unnormalised weight of the cells that log-masks [size] of attributes leave (nats)."""

    @abc.abstractmethod
    def _given(self, masks: Mapping[str, np.ndarray], total: float) -> Self:
        """The model of the cells that the masks leave, with another total."""

    @abc.abstractmethod
    def _product(self, blocks: list[tuple[str, AttributeQuery]]) -> np.ndarray:
        """Expected answers for one record to a product of blocks of attributes [rows of each block]."""

    def answer(self, query: Any) -> np.ndarray:
        """Answer a linear query, factor by factor if it is factored.

        Args:
            query: a query of `pgmjax.queries` over any attributes of the domain, or its text; all other
                attributes are summed out. Entries may be negative.

        Returns:
            Expected answers (counts times the query's unit), in the query's shape.

        References:
            McKenna et al. 2019, Algorithm 3 and Table 2 (Appendix B).
        """
        from pgmjax.queries import text  # of questions alone

        query = text.asked(self.domain, query)
        USUAL.require_cells(query.num_rows(self.domain), "the answer")
        if isinstance(query, DenseMatrix) or self._is_known(query.clique):
            return self.total * np.asarray(query.apply(self._probabilities(query.clique)), np.float64)
        result = np.zeros(query.shape(self.domain))
        for coefficient, factors in query.factors(self.domain):
            result += float(coefficient) * self._product([(name, factors[name]) for name in query.clique])
        return self.total * result

    def _is_known(self, clique: Clique) -> bool:
        """True if the marginal of some attributes need not be computed."""
        return False

    def log_partition(self, evidence: Mapping[str, Any] | str | None = None) -> float:
        """Log of the sum of the unnormalised distribution over the cells that agree with evidence (nats).

        The log-probability of the evidence is this value minus the value without evidence, which is 0 for a
        mixture.

        Args:
            evidence: as in `condition`; None for no evidence.

        Returns:
            The log of the sum; minus infinity if the evidence has probability zero.

        Example:
            >>> import pgmjax as pj
            >>> model = pj.GraphicalModel.from_potentials(Domain({"a": 2}), {("a",): np.log([0.5, 1.5])})
            >>> round(math.exp(model.log_partition({"a": 1}) - model.log_partition()), 6)
            0.75
        """
        return self._log_weight({} if evidence is None else evidence_masks(self.domain, evidence))

    def condition(self, evidence: Mapping[str, Any] | str) -> Self:
        """The model of the records that agree with some evidence.

        Args:
            evidence: for each attribute a value, as in `queries.point`, or a list of these (any of them
                may hold); or conditions as text, such as "sex=F,age<35".

        Returns:
            A model over the same domain, in which other values of these attributes are impossible. Its total
            is the expected number of records that agree.

        Raises:
            ValueError: an unknown attribute or value, or evidence with probability zero.
        """
        masks = evidence_masks(self.domain, evidence)
        if not masks:
            return self
        names = tuple(masks)
        log_share = self._log_weight(masks) - self._log_weight({})
        total = self.total * math.exp(log_share)
        if not math.isfinite(log_share):
            raise ValueError(
                f"the model gives this evidence on {names} probability zero: "
                f"{_impossible(self._contradicting(masks))}."
            )
        if total == 0:
            raise ValueError(
                f"this evidence on {names} leaves less than the smallest float64 of a record: "
                "log_partition(evidence) still gives its log-probability."
            )
        return self._given(masks, total)

    def _contradicting(self, masks: Mapping[str, np.ndarray]) -> list[str]:
        """The fewest attributes whose masks together leave no possible cell."""

        def impossible(names: Sequence[str]) -> bool:
            try:
                return self._log_weight({name: masks[name] for name in names}) == -math.inf
            except ModelTooLargeError:  # not known: less evidence may be more than can be asked
                return False

        return contradicting(list(masks), impossible)


def _impossible(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"no record has this value of {names[0]!r}"
    return f"it cannot hold for {tuple(names)} together; leave one of them out"


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
    from pgmjax._internal.extras import pandas

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


def evidence_masks(domain: Domain, evidence: Any, said: str = "evidence") -> dict[str, np.ndarray]:
    """Log-mask [size] of each attribute: 0 for values that agree with the evidence, minus infinity elsewhere.

    Args:
        domain: the attributes.
        evidence: for each attribute a value, as `data.attribute.code_of` reads it, or a list of these; or
            conditions as text, such as "sex=F,age<35".
        said: what it is, for the messages.

    Raises:
        TypeError: the evidence is not a mapping.
        ValueError: an attribute is unknown or named twice, a value is outside its domain, or there is none.
    """
    if isinstance(evidence, str):
        from pgmjax.queries import text  # of questions alone

        found = text.conditions(evidence, domain).codes
        evidence = {name: [*map(Code, codes)] for name, codes in found.items()}
    checks.mapping(said, evidence, "attribute to value, such as {'sex': 'F'}")
    masks: dict[str, np.ndarray] = {}
    for given, wanted in evidence.items():
        name = checks.same_word(given, domain)
        if name is None or name in masks:
            listed = ", ".join([*domain][:12])
            wrong = "twice" if name else f"which is not an attribute of the domain; it has {listed}"
            raise ValueError(f"{said} names {given!r}, {wrong}.{checks.did_you_mean(given, domain)}")
        several = isinstance(wanted, Iterable) and not isinstance(wanted, str | bytes | np.ndarray | Mapping)
        many = several or np.ndim(wanted) == 1
        codes = [code_of(domain.attribute(name), value, said) for value in (wanted if many else [wanted])]
        if not codes:
            raise ValueError(f"{said} on {name!r} allows no value: name at least one.")
        masks[name] = np.full(domain[name], -np.inf)
        masks[name][codes] = 0.0
    return masks
