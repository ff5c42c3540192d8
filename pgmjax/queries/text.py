"""Parsing of conditions such as `sex=Male,age<30` into counting queries.

A text is a comma-separated list of conditions; a record is counted if all of them hold. A condition is
`NAME OP VALUE` with one of `=  !=  <  <=  >  >=`, or `NAME in {VALUE|VALUE}`. A value is a label, a
bin such as `[20, 30)`, `missing`, or a number; names and values may be quoted. A comparison with a
binned attribute must fall on a bin edge, the finest resolution available.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

from pgmjax import queries
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain
from pgmjax.queries.block import code_of

_OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_QUOTED = re.compile(r"\s*(['\"])(.*?)\1\s*", re.DOTALL)
_OPERATOR = re.compile(r"\s*(<=|>=|!=|==|=|<|>|in\b(?=\s*\{))\s*")
_SET = re.compile(r"\{([^}]*)\}\s*")
_BIN = re.compile(r"\[[^\])]*[\])]\s*")
_PLAIN = re.compile(r"[^,]*")


def parse(text: str, domain: Domain) -> queries.Product:
    """Return the counting query of a list of conditions.

    Args:
        text: conditions separated by commas, for example `sex=Male,age<30,race in {White|Black}`.
        domain: the attributes with their names, labels and bins.

    Returns:
        A product of one subset for each attribute named; its answer is the number of records for which
        every condition holds.

    Raises:
        ValueError: the text cannot be read, names an unknown attribute or value, cuts through a bin, or
            leaves no value of an attribute.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> domain = Domain({"age": {"bins": [0, 20, 30, 99]}, "sex": {"labels": ["F", "M"]}})
        >>> parse("sex=M, age<30", domain).clique
        ('sex', 'age')
    """
    chosen = selection(text, domain)
    return queries.Product({name: queries.subset(codes) for name, codes in chosen.items()})


def selection(text: str, domain: Domain) -> dict[str, tuple[int, ...]]:
    """Return the codes that satisfy all conditions, for each attribute named in the text.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> selection("age>=20,age<99", Domain({"age": {"bins": [0, 20, 30, 99, 120]}}))
        {'age': (1, 2)}
    """
    if not text.strip():
        raise ValueError("The query is empty: write conditions such as  sex=Male,age<30  (see --help).")
    chosen: dict[str, tuple[int, ...]] = {}
    position = 0
    while position < len(text):
        name, position = _read_name(text, position, domain)
        word, position = _read_operator(text, position, name)
        values, position = _read_values(text, position, word)
        codes = _codes(domain.attribute(name), word, values)
        before = chosen.get(name, tuple(range(domain[name])))
        chosen[name] = tuple(code for code in before if code in codes)
        if not chosen[name]:
            raise ValueError(f"No value of {name!r} satisfies the conditions on it: the answer is 0.")
        if position < len(text):
            if text[position] != ",":
                raise ValueError(f"Expected a comma before {text[position:].strip()!r}.")
            position += 1
            if not text[position:].strip():
                raise ValueError("The query ends with a comma: a condition is missing behind it.")
    return chosen


def _read_name(text: str, position: int, domain: Domain) -> tuple[str, int]:
    """Read the attribute that starts here: quoted, or the longest known name followed by an operator."""
    quoted = _QUOTED.match(text, position)
    if quoted:
        if quoted.group(2) not in domain:
            raise ValueError(_unknown(quoted.group(2), domain))
        return quoted.group(2), quoted.end()
    start = position + len(text[position:]) - len(text[position:].lstrip())
    for name in sorted(domain.attributes, key=len, reverse=True):
        if text.startswith(name, start) and _OPERATOR.match(text, start + len(name)):
            return name, start + len(name)
    match = _PLAIN.match(text, start)
    condition = match.group().strip() if match else ""
    for name in sorted(domain.attributes, key=len, reverse=True):
        rest = condition.removeprefix(name)
        if condition.startswith(name) and not re.match(r"\w", rest):
            raise ValueError(_no_operator(name, rest))
    operator_found = _OPERATOR.search(condition)
    name = condition[: operator_found.start()] if operator_found else condition
    raise ValueError(_unknown(name.strip(), domain))


def _no_operator(name: str, rest: str) -> str:
    got = repr(rest.strip()) if rest.strip() else "nothing"
    return f"Expected an operator ({' '.join(_OPERATORS)}, or in {{a|b}}) behind {name!r}, got {got}."


def _unknown(name: str, domain: Domain) -> str:
    known = ", ".join(domain.attributes[:30]) + (", ..." if len(domain) > 30 else "")
    return f"Unknown attribute {name!r}; the model has {known}."


def _read_operator(text: str, position: int, name: str) -> tuple[str, int]:
    match = _OPERATOR.match(text, position)
    if not match:
        raise ValueError(_no_operator(name, text[position:]))
    return {"==": "="}.get(match.group(1), match.group(1)), match.end()


def _read_values(text: str, position: int, word: str) -> tuple[list[str], int]:
    """Read the value that starts here, or the values after `in`."""
    if word == "in":
        match = _SET.match(text, position)
        if not match:
            raise ValueError("A set opened by { must be closed by }.")
        values = [_unquote(value) for value in match.group(1).split("|")]
        if not all(values):
            raise ValueError(f"A value is missing in {match.group().strip()}.")
        return values, match.end()
    match = _QUOTED.match(text, position)
    if match:
        return [match.group(2)], match.end()
    match = _BIN.match(text, position) or _PLAIN.match(text, position)
    assert match is not None
    if not match.group().strip():
        raise ValueError(f"A value is missing behind {text[:position].strip()!r}.")
    return [match.group().strip()], match.end()


def _unquote(value: str) -> str:
    match = _QUOTED.fullmatch(value)
    return match.group(2) if match else value.strip()


def _codes(attribute: Attribute, word: str, values: list[str]) -> set[int]:
    """Return the codes of an attribute that satisfy a condition."""
    if word in _ORDER:
        return _compared(attribute, word, values[0])
    equal = {code_of(attribute, value) for value in values}
    return set(range(attribute.size)) - equal if word == "!=" else equal


def _compared(attribute: Attribute, word: str, value: str) -> set[int]:
    """Return the codes below or above a bound; the missing bucket is in neither."""
    bound = _number(value)
    if bound is None:
        raise ValueError(f"{attribute.name!r} {word} needs a number, got {value!r}.")
    if attribute.bins is not None:
        return _compared_bins(attribute, word, bound)
    if attribute.labels is None:
        points: list[float] = list(range(attribute.size - attribute.missing))
    elif all(isinstance(label, int | float) and not isinstance(label, bool) for label in attribute.labels):
        points = [float(label) for label in attribute.labels]
    else:
        raise ValueError(f"The labels of {attribute.name!r} are words without an order: use = or in {{a|b}}.")
    return {code for code, point in enumerate(points) if _ORDER[word](point, bound)}


def _compared_bins(attribute: Attribute, word: str, bound: float) -> set[int]:
    """Return the bins entirely below or above a bound; bins are [low, high) and the last is closed."""
    name, edges = attribute.name, list(attribute.bins or ())
    if attribute.clip:  # the end bins include values beyond them
        edges[0], edges[-1] = -math.inf, math.inf
    count = len(edges) - 1
    if bound < edges[0]:
        cut = 0
    elif bound > edges[-1] or (bound == edges[-1] and word in ("<=", ">")):
        cut = count
    elif bound == edges[-1]:
        raise ValueError(f"The last bin of {name!r} includes its upper edge: write {name}<={bound:g}.")
    elif bound in edges and word in ("<=", ">"):
        raise ValueError(
            f"The bins of {name!r} include their lower edge and not their upper: "
            f"write {name}<{bound:g} or {name}>={bound:g}."
        )
    elif bound in edges:
        cut = edges.index(bound)
    else:
        near = [max(e for e in edges if e < bound), min(e for e in edges if e > bound)]
        words = " and ".join(f"{edge:g}" for edge in near if math.isfinite(edge))
        raise ValueError(f"{bound:g} cuts through a bin of {name!r}; nearest edges: {words or 'none'}.")
    return set(range(cut)) if word in ("<", "<=") else set(range(cut, count))


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
