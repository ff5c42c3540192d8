"""Constraints: exact public knowledge about a table, in addition to noisy measurements.

- `StructuralZeros`: a mask of impossible cells.
- `AllowedSet`: a list of the possible cells.
- `FunctionalDependency`: attributes that determine another one.
- `FixedMarginal`: a marginal that is known exactly.

`read_constraints` reads them from a file. `estimation.feasibility` checks that they are consistent.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import code_of
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.queries.blocks import FrozenArray
from pgmjax.queries.query import attribute_names


@dataclasses.dataclass(frozen=True, init=False)
class StructuralZeros:
    """A mask of possible combinations of values, public and independent of the records.

    Args:
        clique: the attributes, in the order of the mask's axes.
        allowed: booleans [size of each attribute]; True for possible cells.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: the number of axes differs from that of attributes, or no cell is possible.

    Example:
        >>> zeros = StructuralZeros(("age", "driver"), [[True, False], [True, True]])
        >>> zeros.log_mask().tolist()
        [[0.0, -inf], [0.0, 0.0]]
    """

    clique: Clique
    mask: FrozenArray

    def __init__(self, clique: Any, allowed: Any) -> None:
        clique = attribute_names(clique)
        try:
            mask = FrozenArray(allowed, f"the mask over {clique}", len(clique))
            came = mask.array.dtype
        except TypeError:  # of texts and the like
            came = np.asarray(allowed).dtype
        if came.kind != "b":
            raise TypeError(
                f"the mask over {clique} must be boolean, one axis an attribute, True where possible, got "
                f"{came}. With a list of impossible cells, such as [(0, 1), (1, 2)], write mask = "
                "np.ones(shape, bool); mask[tuple(np.transpose(cells))] = False; or list what is possible: "
                f"AllowedSet({clique}, [...])."
            )
        if not mask.array.any():
            raise ValueError(f"the mask over {clique} allows no combination: True must mean possible.")
        checks.set_fields(self, clique=clique, mask=mask)

    @property
    def allowed(self) -> np.ndarray:
        """Mask of possible cells, booleans [size of each attribute], read-only."""
        return self.mask.array

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the mask itself, checked against a domain.

        Raises:
            ValueError: an unknown attribute, or a mask whose shape is not the clique's.
        """
        _check_shape(domain, self.clique, self.allowed, "mask", "boolean")
        return self

    def log_mask(self) -> np.ndarray:
        """Return 0 for possible cells and minus infinity for others, float64 (nats)."""
        return np.where(self.allowed, 0.0, -np.inf)


@dataclasses.dataclass(frozen=True, init=False)
class AllowedSet:
    """A list of the possible combinations of values; all others are impossible.

    Args:
        clique: the attributes.
        combinations: the possible combinations, each with one value per attribute in the clique's order (for
            a single attribute, bare values will do): as in `queries.point`.

    Raises:
        TypeError: not a list of combinations.
        ValueError: no combination, or one without a value for each attribute.

    Example:
        >>> allowed = AllowedSet(("age", "driver"), [(0, "no"), (1, "no"), (1, "yes")])
        >>> allowed.zeros(Domain({"age": 2, "driver": {"labels": ["no", "yes"]}})).allowed.tolist()
        [[True, False], [True, True]]
    """

    clique: Clique
    combinations: tuple[tuple[Any, ...], ...]

    def __init__(self, clique: Any, combinations: Any) -> None:
        clique = attribute_names(clique)
        said = f"the allowed set over {clique}"
        rows = checks.several(said, combinations, "combinations")
        rows = tuple(combination(row, len(clique), said) for row in rows)
        if not rows:
            raise ValueError(f"{said} allows no combination: name at least one.")
        checks.set_fields(self, clique=clique, combinations=rows)

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the constraint as a mask over a domain.

        Raises:
            ValueError: an unknown attribute or value.
        """
        clique = as_clique(domain, self.clique)
        mask = np.zeros(domain.shape_of(clique), bool)
        mask[_index(domain, clique, self.combinations, "the allowed set")] = True
        return StructuralZeros(clique, mask)


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class FunctionalDependency:
    """A functional dependency of one attribute on others: a zip code determines its state.

    Args:
        determining: the determining attributes.
        determined: the dependent attribute.
        mapping: the function: a mapping from a value, or a tuple of values in the order of `determining`, to
            the dependent value (values as in `queries.point`); or an array of codes
            [size of each determining attribute]. Every combination needs a value: give one that cannot
            occur any value, and add a `StructuralZeros`.

    Raises:
        TypeError: neither a mapping nor an array of integers.
        ValueError: `determined` is among `determining`, or the mapping is empty.

    Example:
        >>> domain = Domain({"zip": 3, "state": {"labels": ["MA", "NY"]}})
        >>> state_of = FunctionalDependency(("zip",), "state", {0: "MA", 1: "NY", 2: "MA"})
        >>> state_of.zeros(domain).allowed.tolist()
        [[True, False], [False, True], [True, False]]
    """

    determining: Clique
    determined: str
    mapping: FrozenArray | tuple[tuple[tuple[Any, ...], Any], ...]

    def __init__(self, determining: Any, determined: str, mapping: Any) -> None:
        determining = attribute_names(determining)
        checks.kind(determined, str, "determined must be one attribute's name")
        if determined in determining:
            raise ValueError(f"{determined!r} cannot be among the attributes that determine it.")
        said = f"the dependency of {determined!r} on {determining}"
        if isinstance(mapping, Mapping):
            if not mapping:
                raise ValueError(f"{said} needs a value for every combination, got an empty mapping.")
            items = mapping.items()
            held: Any = tuple((combination(key, len(determining), said), value) for key, value in items)
        else:
            held = FrozenArray(mapping, said, len(determining))
            if held.array.dtype != np.int64:
                raise TypeError(f"{said} must be a mapping or an array of integer codes.")
        checks.set_fields(self, determining=determining, determined=determined, mapping=held)

    @property
    def clique(self) -> Clique:
        """The determining attributes, then the dependent one."""
        return (*self.determining, self.determined)

    def codes(self, domain: Domain) -> np.ndarray:
        """Return the dependent code of each combination [size of each determining attribute].

        Raises:
            ValueError: an unknown attribute or value, a combination without a value or with two,
                or a wrong shape.
        """
        clique = as_clique(domain, self.clique)
        shape, said = domain.shape_of(clique[:-1]), f"the dependency of {self.determined!r}"
        if isinstance(self.mapping, FrozenArray):
            array = self.mapping.array
            if array.shape != shape:
                raise ValueError(f"{said} must be an array of shape {shape}, got {array.shape}.")
            if array.min() < 0 or array.max() >= domain[self.determined]:
                raise ValueError(f"{said} must hold codes in 0..{domain[self.determined] - 1}.")
            return array
        keys, values = zip(*self.mapping, strict=True)
        index = _index(domain, clique[:-1], keys, f"a key of the mapping to {self.determined!r}")
        if len(set(zip(*index, strict=True))) < len(self.mapping):
            raise ValueError(
                f"{said} on {self.determining} names a combination twice, as labels and as codes: keep one."
            )
        table = np.full(shape, -1)
        determined = domain.attribute(self.determined)
        table[index] = [code_of(determined, value, said) for value in values]
        left_out = int((table < 0).sum())
        if left_out:
            raise ValueError(
                f"{said} on {self.determining} leaves out {left_out} of {table.size} combinations: give each "
                "a value, and make those that cannot occur impossible with StructuralZeros."
            )
        return table

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the constraint as a mask over the determining attributes and the dependent one.

        Raises:
            ValueError: see `codes`.
        """
        values = np.arange(domain.attribute(self.determined).size)
        return StructuralZeros(self.clique, self.codes(domain)[..., None] == values)


@dataclasses.dataclass(frozen=True, init=False)
class FixedMarginal:
    """A public, exact marginal, such as a census of the same people or the quotas of a sample.

    Never make one from private records: a fit reproduces it exactly.

    Args:
        clique: the attributes, in the order of the axes.
        counts: number of records of each combination [size of each attribute], >= 0. They sum to the
            number of records of the fit. A zero count makes the cell impossible.

    Raises:
        TypeError: counts are not numbers.
        ValueError: a negative count, all zero, an infinite sum, or a wrong number of axes.

    Example:
        >>> sexes = FixedMarginal(("sex",), [60, 40])
        >>> sexes.total, sexes.probabilities.tolist()
        (100.0, [0.6, 0.4])
    """

    clique: Clique
    table: FrozenArray

    def __init__(self, clique: Any, counts: Any) -> None:
        clique = attribute_names(clique)
        said = f"the fixed marginal over {clique}"
        table = FrozenArray(counts, said, len(clique))
        if table.array.dtype == bool:
            raise TypeError(f"{said} must hold counts, got booleans.")
        if table.array.min() < 0:
            raise ValueError(f"{said} must hold counts >= 0, got negative ones.")
        if not table.array.any():
            raise ValueError(f"{said} must hold a count above zero, got none.")
        with np.errstate(over="ignore"):
            total = table.array.sum(dtype=np.float64)
        checks.total(float(total), f"the sum of {said}")
        checks.set_fields(self, clique=clique, table=table)

    @property
    def counts(self) -> np.ndarray:
        """The counts as given [size of each attribute], read-only."""
        return self.table.array

    @property
    def total(self) -> float:
        """The number of records (counts)."""
        return float(self.counts.sum(dtype=np.float64))

    @property
    def probabilities(self) -> np.ndarray:
        """The counts divided by their total, float64 [size of each attribute]."""
        return self.counts / self.total

    def zeros(self, domain: Domain) -> StructuralZeros | None:
        """Return the mask of its zero counts over a domain; None if all counts are positive.

        Raises:
            ValueError: an unknown attribute, or counts whose shape is not the clique's.
        """
        _check_shape(domain, self.clique, self.counts, "fixed marginal", "count")
        return None if self.counts.all() else StructuralZeros(self.clique, self.counts > 0)


def _index(
    domain: Domain, clique: Clique, combinations: Sequence[tuple[Any, ...]], said: str
) -> tuple[list[int], ...]:
    """Return the codes of combinations of values, attribute by attribute."""
    columns = zip(clique, zip(*combinations, strict=True), strict=True)
    return tuple(
        [code_of(domain.attribute(name), value, said) for value in column] for name, column in columns
    )


def _check_shape(domain: Domain, clique: Clique, table: np.ndarray, what: str, cell: str) -> None:
    """Refuse a table over a clique whose shape is another one in the domain."""
    expected = domain.shape_of(as_clique(domain, clique, exact=True))
    if table.shape != expected:
        cells = [f"{name} ({', '.join(domain.attribute(name).code_names()[:6])})" for name in clique]
        raise ValueError(
            f"the {what} over {clique} must have shape {expected}, got {table.shape}: a {cell} for each "
            f"value of {' and '.join(cells)}, in this order."
        )


def combination(row: Any, length: int, said: str) -> tuple[Any, ...]:
    """Return a combination of values as a tuple; a bare value counts as a 1-tuple.

    Raises:
        ValueError: the number of values differs from `length`.
    """
    bare = isinstance(row, str | bytes | Mapping) or not hasattr(row, "__len__")
    values = (row,) if bare else tuple(row)
    if len(values) != length:
        raise ValueError(f"{said} needs {length} values in each combination, got one of {len(values)}.")
    return values


_KINDS: Mapping[str, tuple[type[Any], tuple[str, ...], str]] = {
    "structural-zeros": (StructuralZeros, ("clique", "allowed"), '"allowed": [[true, false], [true, true]]'),
    "allowed-set": (AllowedSet, ("clique", "combinations"), '"combinations": [["child", "no"]]'),
    "functional-dependency": (
        FunctionalDependency,
        ("determining", "determined", "mapping"),
        '"determined": "state", "mapping": [["02139", "MA"]]',
    ),
    "fixed-marginal": (FixedMarginal, ("clique", "counts"), '"counts": [60, 40]'),
}
"""The kinds of a constraint file: a class, its arguments, and how some of them are written."""


AGREE = 1e-9  # relative: by how much totals of fixed marginals may differ, which are public and exact
Constraint = StructuralZeros | AllowedSet | FunctionalDependency | FixedMarginal


def read_constraints(path: str | os.PathLike[str]) -> list[Any]:
    """Read constraints from a JSON list of entries with a `kind` and the arguments of its class.

    The kinds are `structural-zeros`, `allowed-set`, `functional-dependency` (whose mapping is a list of pairs
    of a value, or a list of values, and the dependent value) and `fixed-marginal`.

    Args:
        path: the file.

    Raises:
        ValueError: there is no such file, it is not JSON, or an entry is no constraint; the message has its
            number and what it should look like.

    Example:
        >>> import pathlib
        >>> fact = '{"kind": "fixed-marginal", "clique": ["sex"], "counts": [60, 40]}'
        >>> _ = pathlib.Path("facts.json").write_text(f"[{fact}]")
        >>> [fact.total for fact in read_constraints("facts.json")]
        [100.0]
    """
    from pgmjax._internal import files  # which a fit does without

    file = pathlib.Path(path)
    if not file.is_file():
        raise ValueError(files.absent("constraint file", path))
    try:
        entries = files.parse_json(files.read_text(file))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise ValueError(
            f"{path} must be a JSON list of constraints, such as "
            '[{"kind": "fixed-marginal", "clique": ["sex"], "counts": [490, 510]}] (docs/constraints.md).'
        )
    return [_constraint(f"{path}, entry {number}", entry) for number, entry in enumerate(entries, 1)]


def kind_of(constraint: Any) -> str:
    """Return the kind of a constraint, as a file names it."""
    return next(kind for kind, (made, _, _) in _KINDS.items() if isinstance(constraint, made))


def _constraint(where: str, entry: Any) -> Any:
    if not isinstance(entry, Mapping) or entry.get("kind") not in _KINDS:
        raise ValueError(f"{where}: expected an object whose kind is one of {', '.join(_KINDS)}.")
    kind, names, example = _KINDS[entry["kind"]]
    given = {name: value for name, value in entry.items() if name != "kind"}
    if {*given} != {*names}:
        possible = " Combinations are the possible ones: all others are impossible." * (kind is AllowedSet)
        raise ValueError(
            f"{where}: the kind {entry['kind']} has {', '.join(names)}, got {', '.join(given) or 'none'}. "
            f'Write, for example, {{"kind": "{entry["kind"]}", "{names[0]}": ["..."], {example}}}.{possible}'
        )
    try:
        _check_forms(given)
        if kind is FunctionalDependency and isinstance(given["mapping"], list):
            given["mapping"] = {_key(one): value for one, value in map(_pair, given["mapping"])}
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _check_forms(given: Mapping[str, Any]) -> None:
    """Refuse what JSON writes otherwise, before the classes speak of Python."""
    for name in ("clique", "determining"):
        if isinstance(given.get(name), str):
            raise ValueError(f'{name} is a list of names, as in "{name}": ["{given[name]}"].')
    counts = given.get("counts")
    if isinstance(counts, Mapping):
        raise ValueError(
            "counts are a list in the order of the domain's values, without their names, as in "
            '"counts": [60, 40].'
        )
    if isinstance(counts, list) and any(isinstance(each, str) for each in counts):
        raise ValueError('counts are numbers without quotes, as in "counts": [60, 40].')
    if isinstance(given.get("mapping"), Mapping) and any(key.isdecimal() for key in given["mapping"]):
        raise ValueError(
            "a key of JSON is a text, and no code: write the mapping as pairs, as in "
            '"mapping": [[0, "MA"], [1, "NY"]].'
        )


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("a mapping is a list of pairs of a value and the one that it determines.")
    return value[0], value[1]


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
