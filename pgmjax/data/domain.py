"""The public description of a table: its attributes, in order, the size of each, and cliques of them.

A domain is always given, never inferred from private records, because the set of values in a private table
is itself private. It is written in Python, read from a file (JSON, or YAML with only `true` and `false` as
booleans; no name may occur twice), or inferred from a public table.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named, instead
from pgmjax.data.attribute import Attribute
from pgmjax.data.entry import shown
from pgmjax.data.value import plain_text

Clique = tuple[str, ...]
"""Attribute names, in the order of a table's axes."""

_BRACES = re.compile(r"(?:\b[A-Za-z_]\w*: )?(?:\{(?:[^{}]|\{[^{}]*\})*\}|(?<=: )\[[^\[\]]*\])")
_WORD = re.compile(r"(?<![\w'\".])([A-Za-z_][\w.]*|\d{4}-\d\d-\d\d)(?=[,:\]}])")
_OPEN = re.compile(r"(?<=, or )([^:,]+): discover(?=\.)")
_DRAFTED = re.compile(r', or "[^"]+": "discover"')  # which a draft may say, and no domain
_SWITCH = re.compile(r"`?\b([a-z]+): (true|false)\b`?")


@dataclass(frozen=True, init=False, repr=False)
class Domain(Named):
    """The attributes of a table with their sizes. Hashable and compared by value.

    Args:
        spec: a mapping from name to a size (codes 0..size-1), a mapping as in a domain file (see
            `Attribute.from_spec`), or an `Attribute`.

    Raises:
        TypeError: `spec` is not a mapping, or a name or size has the wrong type.
        ValueError: `spec` is empty, a name is empty, or a size is below 1.

    Example:
        >>> domain = Domain({"age": 85, "sex": {"labels": ["Female", "Male"]}})
        >>> domain.shape, domain["sex"], domain.size()
        ((85, 2), 2, 170)
    """

    _attributes: tuple[Attribute, ...]

    def __init__(self, spec: Mapping[str, Any]):
        if not isinstance(spec, Mapping):
            read = isinstance(spec, str | os.PathLike)
            remedy = (
                "read a domain file with Domain.read"
                if read
                else 'write Domain({"age": 100, "sex": ["F", "M"]})'
            )
            raise TypeError(
                f"A domain must be a mapping from attribute name to entry, got {shown(spec)}: {remedy}."
            )
        if not spec:
            raise ValueError("A domain must have at least one attribute, got none.")
        try:
            self._describe(spec)
        except (TypeError, ValueError) as error:
            raise type(error)(_DRAFTED.sub("", in_python(str(error)))) from None

    def _describe(self, spec: Mapping[str, Any]) -> None:
        attributes = tuple(Attribute.from_spec(name, entry) for name, entry in spec.items())
        _check_names([attribute.name for attribute in attributes])
        object.__setattr__(self, "_attributes", attributes)

    @classmethod
    def _of_file(cls, spec: Any) -> Domain:
        """Return the domain of a file's content, whose faults are told as the file is written."""
        if not isinstance(spec, Mapping) or not spec:
            form = "a name and what it holds on each line, such as age: {min: 0, max: 99} or sex: [F, M]"
            if isinstance(spec, str) and (wrong := re.search(r"^\s*[\w-]+\s*(=|:(?=\S))", spec)):
                form = f"write a colon and a space where this has {wrong[1]!r}, as in age: 12"
            came = "nothing" if spec is None or spec == {} else shown(spec)
            raise ValueError(f"A domain file must describe each attribute, got {came}: {form}.")
        found = object.__new__(cls)
        found._describe(spec)
        return found

    @functools.cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self._attributes}

    @functools.cached_property
    def attributes(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._by_name)

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes, in order."""
        return tuple(attribute.size for attribute in self._attributes)

    @property
    def sizes(self) -> dict[str, int]:
        """A new dict from name to size."""
        return dict(zip(self.attributes, self.shape, strict=True))

    def __getitem__(self, name: str) -> int:
        known = self._by_name.get(name)
        return (self.attribute(name) if known is None else known).size

    __setitem__ = instead(
        "A domain does not change: make another, such as Domain({**domain.to_dict(), 'age': 100})."
    )

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name, in whichever form Unicode writes it.

        Raises:
            ValueError: no attribute has that name.
        """
        if name in self._by_name:
            return self._by_name[name]
        found = checks.same_word(name, self._by_name)
        if found is None or plain_text(found) != plain_text(name):
            meant = checks.did_you_mean(name, self._by_name)
            raise ValueError(f"{name!r} is not an attribute of the domain; there are {_some(self)}.{meant}")
        return self._by_name[found]

    def shape_of(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of the given attributes, in the order given."""
        return tuple(map(self.__getitem__, checks.several("clique", clique, "attribute names")))

    def size(self, clique: Iterable[str] | None = None) -> int:
        """Return the exact number of cells over the given attributes. Default: all attributes."""
        return math.prod(self.shape if clique is None else self.shape_of(clique))

    def project(self, clique: Clique) -> Domain:
        """Return the domain of the given attributes, in the order given."""
        return Domain({name: self._by_name[name] for name in as_clique(self, clique)})

    def decode(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return columns of values [rows] for columns of codes [rows]; see `Attribute.decode`."""
        if hasattr(columns, "columns"):
            raise TypeError(
                "columns must be a mapping from names to codes, as model.sample returns, got "
                f"{type(columns).__name__}: what is read from a file has values already, and needs no "
                "decoding."
            )
        checks.mapping("columns", columns, "attribute to codes")
        return {name: self.attribute(name).decode(codes) for name, codes in columns.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a domain file: a plain size per attribute, or a mapping if needed."""
        specs = {name: attribute.to_spec() for name, attribute in self._by_name.items()}
        return {name: spec["size"] if list(spec) == ["size"] else spec for name, spec in specs.items()}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain file: .json, .yaml or .yml.

        Raises:
            ValueError: the kind of file is not supported, a name is given twice, or the text is not valid
                JSON or YAML, nested too deep, with numbers of more than 400 digits, or with aliases that
                stand for more than a million entries.
        """
        from pgmjax.data.domain_file import read_domain_file  # which a fit does without

        return read_domain_file(path, cls._of_file)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a domain file that does not exist yet: .json, .yaml or .yml."""
        from pgmjax.data.domain_file import write_file

        write_file(checks.new_file(path), self.to_dict())

    @classmethod
    def from_public_data(
        cls, frame: Any, *, bins: int | Mapping[str, Any] | None = None, max_labels: int = 100
    ) -> Domain:
        """Infer a domain from public data. Never use it on the table to be protected.

        Args:
            frame: a pandas, polars or Arrow table, or a mapping from name to list of values.
            bins: number of equal-width cells for every numeric attribute, or a mapping from attribute to
                edges or to a number of equal-width cells.
            max_labels: the largest number of labels of an attribute. Whole numbers with more distinct values
                get a range, other numbers bins of equal and round width, and texts the label "other" for all
                but the most frequent. It is also the largest number of cells of all these.

        Dates get cells of a day, a month or a year.

        Raises:
            ValueError: an attribute has no values, or bins but values that are not numbers.

        Warns:
            UserWarning: always, because a domain inferred from private data reveals its values.
        """
        from pgmjax.data.draft import infer  # of public tables alone

        found = cls(infer(frame, bins, max_labels))
        checks.warn(
            "This domain shows which values occur in the table it was taken from: use it only where "
            "that table is public, and write the domain of a private table by hand."
        )
        return found

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in self.sizes.items())
        return f"Domain({{{sizes}}})"

    def _repr_html_(self) -> str:
        from pgmjax._internal import html  # of notebooks

        rows = ((a.name, a.size, _kind(a)) for a in self._attributes)
        facts = {"attributes": len(self), "cells": self.size()}
        return html.card("Domain", facts, html.table(("attribute", "size", "codes"), rows, len(self)))


def _kind(attribute: Attribute, most: int = 6) -> str:
    """Return a short text on the meaning of an attribute's codes."""
    if attribute.labels is None and attribute.bins is None:
        said = "numbers from 0"
    else:
        names = attribute.code_names()[: attribute.size - attribute.missing]
        ends = names if len(names) <= most else (*names[: most - 1], "…", names[-1])
        said = ("bins " if attribute.bins is not None else "") + ", ".join(ends)
    return f"{said}; the last: missing" if attribute.missing else said


def _check_names(names: list[str]) -> None:
    """Refuse two names that look the same: stores would read one column for both."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(plain_text(name), name)) != name:
            places = f"attributes {names.index(other) + 1} and {names.index(name) + 1}"
            raise ValueError(
                f"The names {other!r} and {name!r} ({places}) differ only in white space or in how Unicode "
                "writes them: rename one."
            )


def _some(domain: Domain, most: int = 12) -> str:
    names = ", ".join(domain.attributes[:most])
    return names if len(domain) <= most else f"{names} and {len(domain) - most} more"


def differing(one: Domain, other: Domain) -> str:
    """Return in which attributes two domains differ, in words.

    Example:
        >>> differing(Domain({"a": 2, "b": 3}), Domain({"a": 2, "b": 4, "c": 2}))
        'b, c'
    """
    names = [*one, *(name for name in other if name not in one)]
    found = [
        name
        for name in names
        if name not in one or name not in other or one.attribute(name) != other.attribute(name)
    ]
    return ", ".join(found) or "the order of their attributes"


def as_domain(domain: Any, call: str, *others: Any) -> Domain:
    """Return the argument that is to be a domain.

    Args:
        domain: the argument.
        call: how the function is called, for the message.
        others: arguments that stand beside it.

    Raises:
        TypeError: it is none; the message has the call, and says whether the domain stands elsewhere.

    Example:
        >>> as_domain([1, 2], "Dataset.from_frame(domain, frame)", Domain({"a": 2}))
        Traceback (most recent call last):
        TypeError: the domain is given in another place: write Dataset.from_frame(domain, frame).
    """
    if isinstance(domain, Domain):
        return domain
    if any(isinstance(other, Domain) for other in others):
        raise TypeError(f"the domain is given in another place: write {call}.")
    made = ", with pgmjax.Domain(mapping) for the domain" if isinstance(domain, Mapping) else ""
    made = ", with pgmjax.Domain.read(file) for the domain" if isinstance(domain, str | os.PathLike) else made
    raise TypeError(f"domain must be a pgmjax.Domain, got {type(domain).__name__}: write {call}{made}.")


def in_python(message: str) -> str:
    """Return a message with what it says to write as Python has it, and not YAML.

    Example:
        >>> print(in_python("Write age: {min: 0, max: 99}, or sex: {labels: [F, M], missing: true}."))
        Write "age": {"min": 0, "max": 99}, or "sex": {"labels": ["F", "M"], "missing": True}.
    """
    values = {"true": "True", "false": "False", "null": "None"}

    def quoted(found: re.Match[str]) -> str:
        return values.get(found[1], f'"{found[1]}"')

    def switched(found: re.Match[str]) -> str:
        return f'"{found[1]}": {values[found[2]]}'

    message = _OPEN.sub(r'"\1": "discover"', message)
    return _SWITCH.sub(switched, _BRACES.sub(lambda found: _WORD.sub(quoted, found[0]), message))


# Cliques: tuples of a domain's attribute names, in the order of a table's axes.


def as_clique(domain: Container[str], attributes: Any, *, exact: bool = False) -> Clique:
    """Return attributes as a clique, in the order given, by their names in the domain.

    Args:
        domain: the domain, or any container of the known names.
        attributes: a list or tuple of attribute names, in any case if only one name of the domain is meant.
        exact: whether a name in another case is refused.

    Raises:
        TypeError: `attributes` is a string or no sequence, or a name is not a string.
        ValueError: no attribute is given, one is unknown, or one is named twice.

    Example:
        >>> as_clique({"age", "sex"}, ["Sex", "age"])
        ('sex', 'age')
    """
    if isinstance(attributes, str):
        names = tuple(name.strip() for name in re.split("[,*:]", attributes) if name.strip())
        known = iter(domain) if isinstance(domain, Iterable) else iter(())
        other = next((name for name in known if name != attributes), "other")
        lone = f"({attributes!r},), and several names as one tuple, ({attributes!r}, {other!r})"
        raise TypeError(
            f"A clique must be a tuple of attribute names, got the text {attributes!r}: write "
            f"{names if len(names) > 1 else lone}."
        )
    checks.kind(attributes, Sequence, "A clique must be a tuple of attribute names", "write ('age', 'sex')")
    given = tuple(attributes)
    if not given:
        raise ValueError("A clique must name at least one attribute, got an empty one.")
    clique = tuple(
        [
            name if isinstance(name, str) and name in domain else _name(domain, name, given, exact)
            for name in given
        ]
    )
    if len(set(clique)) != len(clique):
        raise ValueError(f"Clique {clique} names an attribute twice: name each once.")
    return clique


def as_cliques(domain: Container[str], cliques: Any) -> list[Clique]:
    """Return several lists of attributes as cliques; see `as_clique`.

    Raises:
        TypeError: no list, or a single clique in its place.
        ValueError: as in `as_clique`.

    Example:
        >>> as_cliques({"age", "sex"}, ("age", "sex"))
        Traceback (most recent call last):
        TypeError: cliques must be a list of cliques, got one: write [('age', 'sex')].
    """
    listed = checks.several("cliques", cliques, "tuples of attribute names", "write [('age', 'sex')]")
    if listed and all(isinstance(name, str) for name in listed):
        raise TypeError(f"cliques must be a list of cliques, got one: write [{listed}].")
    return [as_clique(domain, clique) for clique in listed]


def _name(domain: Container[str], name: Any, given: tuple[Any, ...], exact: bool) -> str:
    if not isinstance(name, str):
        raise TypeError(
            f"A clique must hold attribute names, got {type(name).__name__} in it: write ('age', 'sex')."
        )
    names = list(domain) if isinstance(domain, Iterable) else []
    found = None if exact else checks.same_word(name, names)
    if found is None:
        parts = re.findall(r"[^\s*:+&,]+", name)
        if len(parts) > 1 and all(checks.same_word(part, names) for part in parts):
            several = ", ".join(f'"{part}"' for part in parts)
            raise ValueError(
                f"Clique {given} names {name!r}, which is several attributes: write [{several}]."
            )
        listed = f"; it has {', '.join(names[:12])}{', ...' * (len(names) > 12)}" if names else ""
        raise ValueError(
            f"Clique {given} names {name!r}, which is not an attribute of the domain{listed}."
            f"{checks.did_you_mean(name, names)}"
        )
    return found


def same_attributes(first: Iterable[str], second: Iterable[str]) -> bool:
    """Return whether two cliques have the same attributes, in any order.

    Example:
        >>> same_attributes(("age", "sex"), ("sex", "age"))
        True
    """
    return set(first) == set(second)


def in_order(attributes: Iterable[str], names: Container[str]) -> Clique:
    """Return the attributes that are in `names`, in their original order.

    Example:
        >>> in_order(("age", "sex", "race"), {"race", "age"})
        ('age', 'race')
    """
    return tuple(name for name in attributes if name in names)


def all_subsets(clique: Clique) -> list[Clique]:
    """Return all subsets of a clique by size, from the empty one to the clique itself.

    Example:
        >>> all_subsets(("age", "sex"))
        [(), ('age',), ('sex',), ('age', 'sex')]
    """
    return [some for size in range(len(clique) + 1) for some in itertools.combinations(clique, size)]


def first_holding(cliques: Iterable[Clique], names: Iterable[str]) -> int | None:
    """Return the index of the first clique that contains all of `names`, or None if none does.

    Example:
        >>> first_holding([("age",), ("age", "sex")], ["sex"])
        1
    """
    wanted = set(names)
    return next((number for number, clique in enumerate(cliques) if wanted <= set(clique)), None)


def marginal_of(clique: Clique, table: Any, part: Sequence[str]) -> Any:
    """Return the marginal of a table on a part of its clique, by summing over the other attributes.

    Args:
        clique: the attributes of the table's axes.
        table: additive values, a NumPy or JAX array.
        part: attributes of the clique, in the order of the result's axes.

    Example:
        >>> import numpy as np
        >>> marginal_of(("age", "sex"), np.array([[1, 2], [3, 4]]), ("sex",)).tolist()
        [4, 6]
    """
    summed = table.sum(axis=tuple([axis for axis, name in enumerate(clique) if name not in part]))
    kept = [name for name in clique if name in part]
    return summed.transpose([kept.index(name) for name in part])


def maximal(cliques: Iterable[Clique]) -> list[Clique]:
    """Return the cliques not contained in another, each set of attributes once.

    Cliques stay in order of first appearance; of several over the same attributes the first is kept.

    Example:
        >>> maximal([("a",), ("a", "b"), ("b", "a"), ("c",)])
        [('a', 'b'), ('c',)]
    """
    first: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    holders: dict[str, list[frozenset[str]]] = {}
    for key in first:
        for name in key:
            holders.setdefault(name, []).append(key)
    # a clique that contains another contains the other's rarest attribute
    return [
        clique
        for key, clique in first.items()
        if not any(key < other for other in min((holders[name] for name in key), key=len, default=first))
    ]
