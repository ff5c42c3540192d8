"""Cliques: tuples of attribute names, in the order of a table's axes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Sequence
from typing import Any

from pgmjax._internal import checks

Clique = tuple[str, ...]


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
