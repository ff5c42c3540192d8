"""Parsing of conditions such as `sex=Male,age<30` into counting queries.

A text is a comma-separated list of conditions; a record is counted if all of them hold. A condition is
`NAME OP VALUE` with one of `=  !=  <  <=  >  >=`, or `NAME in {VALUE|VALUE}`. A value is a label, a
bin such as `[20, 30)`, `missing`, a number, or a date; names and values may be quoted, and written in another
case. A comparison with a binned attribute falls on a bin edge, the finest resolution available, or is
interpolated within the bin, where that is asked for. What cannot be read so is read as SQL or pandas write
it, if that says the same: `sex IN ('F', 'M') AND age BETWEEN 20 AND 40`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from typing import Any

import numpy as np

from pgmjax import queries
from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute, code_of, edge_text
from pgmjax.data.domain import Domain
from pgmjax.data.encoding import Notation
from pgmjax.queries.blocks import AttributeQuery

_OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
NOT_COVERED = "The interval does not cover the error of this."
_MEANT = {"=>": ">=", "=<": "<="}
_ORDER = ("<", "<=", ">", ">=")
_QUOTED = re.compile(r"\s*(['\"])(.*?)\1\s*", re.DOTALL)
_OPERATOR = re.compile(r"\s*(<=|>=|!=|==|=|<|>|in\b(?=\s*\{))\s*")
_SET = re.compile(r"\{([^}]*)\}\s*")
_BIN = re.compile(r"\[[^\])]*[\])]\s*")
_PLAIN = re.compile(r"[^,]*")
_SEVERAL = re.compile(r"[<>=!;&|,]|\b(and|or)\b", re.IGNORECASE)
_JOINED = " Join conditions by commas, as in sex=F,age<30, and values by bars, as in job in {cook|judge}."

_LIST = r"(?![(\[][-+\d.\s]+,[-+\d.\s]+[)\]])(?:\(([^()]*)\)|\[([^\]\[]*)\]|\{([^{}|]*)\})"
"""Values that commas part; two numbers may be the ends of a range, and are none."""
_AS_HERE: tuple[tuple[str, Any], ...] = (
    (r"^\s*where\b", ""),
    (r";\s*$", ""),
    ("[\u2018\u2019`]", "'"),
    ("[\u201c\u201d]", '"'),
    ("\u2264", "<="),
    ("\u2265", ">="),
    ("\u2260|<>", "!="),
    (r"([\w.]+)\s+between\s+([^\s,]+)\s+and\s+([^\s,)]+)", r"\1>=\2,\1<=\3"),
    (r"\.isin\s*\(\s*\[([^\]\[]*)\]\s*\)", r" in {\1}"),
    (r"%in%\s*c\(([^()]*)\)", r" in {\1}"),
    (r"\s+is\s+not\s+", "!="),
    (r"\s+is\s+", "="),
    (r"=\s*(?:null|na|nan)\b", "=missing"),
    (r"\[\s*([^,\s]+)\s*,\s*([^,\s]+?)\s*([\])])", r"[\1, \2\3"),
    (
        rf"([\w.]+)\s+not\s+in\s*{_LIST}",
        lambda it: f"{it[1]}!=" + it[it.lastindex].replace(",", f",{it[1]}!="),
    ),
    (rf"\bin\s*{_LIST}", lambda it: f"in {{{it[it.lastindex].replace(',', '|')}}}"),
    (r"(?<!\w)\(([^()]*[<>={][^()]*)\)", r"\1"),
    (r"\s*(?:\band\b|&&?|;)\s*(?=['\"]?(?:NAMES)(?!\w))", ","),
)
"""How conditions are written elsewhere, and how here; NAMES stands for those of the attributes."""
_RANGE = r"\b(NAMES)\s*={1,2}\s*([-\w.]*\w)\s*(?:\.\.\.?|-|\u2013|\bto\b)\s*([-\w.]*\w)"
_MEANT_SO = (
    (
        "There is no NOT before a condition",
        r"^(?:not\b|!)\s*\(?\s*(NAMES)\s*={1,2}\s*([^,()]+?)\s*\)?$",
        r"\1!=\2",
    ),
    (
        "Several values of one column are joined by bars",
        r"^\s*(NAMES)\s*={1,2}\s*([^,{}|=<>]+?)\s+or\s+\1\s*={1,2}\s*([^,{}|=<>]+?)\s*$",
        r"\1 in {\2|\3}",
    ),
    ("Several values stand in braces", r"\b(NAMES)\s*={1,2}\s*([^,{}|]+(?:\|[^,{}|]+)+)", r"\1 in {\2}"),
    ("A range is two conditions", _RANGE, r"\1>=\2,\1<=\3"),
    ("A range is two conditions", _RANGE, r"\1>=\2,\1<\3"),
    (
        "Bins include their lower edge and not their upper",
        r"\b(NAMES)\s+between\s+([^\s,]+)\s+and\s+([^\s,)]+)",
        r"\1>=\2,\1<\3",
    ),
)
"""What is meant by what cannot be read here: it is said if it can be asked so, and not taken for that."""
_ADVICE = {
    r"\bselect\b|\bgroup\s+by\b": "Write conditions alone, such as sex=Male; the counts of all groups are a "
    "marginal: pgmjax query DIR --marginal age,sex, or in Python release.report(('age', 'sex')).",
    r"\bor\b|\|\||\|[^{}]*[<>=]": "There is no OR of conditions: bars join values of one column, as in "
    "region in {1|2}, and counts of conditions that exclude one another add up.",
    r"\bnot\b|!(?!=)": "There is no NOT before a condition: write sex!=F.",
    r"\bin\s*[(\[]": "Write in {20|30} for two values, and age>=20,age<30 for what lies between them.",
    r"\b(like|contains|startswith|matches)\b|~|=\s*\*": (
        "There are no patterns: name the values, as in job in {cook|judge}."
    ),
    r"\d,\d{3}\b": "Write numbers without a separator of thousands.",
}
"""What to do instead of what cannot be asked, by words of a text that was refused."""
_OF_COUNTS = (
    ": write conditions such as sex=Male,age<30. A share among some of the records is one count over "
    "another; a mean or a median follows from the counts of --marginal, or in Python from release.estimate."
)
_NO_NAMES = (
    (
        "$",
        "Each condition begins with a name, also behind a comma: write age>=18,age<35 for a range, and leave "
        "out a comma that has nothing before it.",
    ),
    (r"\s*pr?\s*\(", f"A query counts records and knows no P, a probability{_OF_COUNTS}"),
    (r"\s*(\w+)\s*\(", rf"A query counts records and knows no \1{_OF_COUNTS}"),
    (
        r"(total|all|count|n|\*)$",
        r"'\1' is no condition: the number of all records is the model's total, which pgmjax query tells "
        "beside every answer. Write, for example, EXAMPLE.",
    ),
)
"""What to say of what stands in the place of a name, by its form; EXAMPLE is a condition of the domain."""


@dataclasses.dataclass(frozen=True, eq=False)
class Conditions:
    """Conditions on a record.

    Attributes:
        shares: for each attribute that a condition is on, the share of the records in each of its cells that
            is counted [size]: 0 or 1, and a number between them in a cell that a bound cuts.
        notes: a sentence on each cell that a bound cuts.
    """

    shares: dict[str, np.ndarray]
    notes: tuple[str, ...]

    @property
    def codes(self) -> dict[str, tuple[int, ...]]:
        """The codes of which records are counted, for each attribute."""
        return {name: tuple(np.flatnonzero(share).tolist()) for name, share in self.shares.items()}

    @property
    def query(self) -> queries.Product:
        """The query whose answer is the number of records for which every condition holds."""
        return queries.Product(
            {
                name: queries.subset(map(queries.Code, self.codes[name]))
                if np.isin(share, (0, 1)).all()
                else queries.matrix([share])
                for name, share in self.shares.items()
            }
        )


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
    return conditions(text, domain).query


def asked(domain: Domain, given: Any, said: str = "A query") -> queries.Query:
    """Return what is asked of a domain: a query, conditions as text, or the counts of some attributes.

    Args:
        domain: the attributes.
        given: a query; a text as in `parse`; or a tuple or list of names, for all cells of their marginal.
        said: what it is, for the message.

    Raises:
        TypeError: none of these.
        ValueError: a query that does not fit the domain, or as in `parse`.

    Example:
        >>> domain = Domain({"age": {"bins": [0, 20, 30, 99]}, "sex": {"labels": ["F", "M"]}})
        >>> [asked(domain, each).num_rows(domain) for each in ("sex=M,age<30", ("age", "sex"))]
        [1, 6]
    """
    if isinstance(given, queries.Query):
        return given.over(domain)
    if isinstance(given, str) and given.lower().endswith((".html", ".htm")):
        raise ValueError(
            f"{given!r} is the name of a page, and here stands a query, such as 'sex=F': the page of a "
            "release is report.html in the folder that save(folder) writes."
        )
    if isinstance(given, str):
        return parse(given, domain).over(domain)
    if isinstance(given, tuple | list) and given and all(isinstance(each, str) for each in given):
        if any(re.search(r"[=<>]", each) and each not in domain for each in given):
            raise ValueError(
                f"{said} is one count, and these are several conditions: join those that hold together in "
                f"one text, {','.join(given)!r}, or ask one at a time."
            )
        return queries.marginal(given).over(domain)
    first = domain.attributes[0]
    if isinstance(given, AttributeQuery):
        raise TypeError(
            f"A query of one attribute stands with its name: write queries.Product({{{first!r}: ...}}) for "
            f"one of {first!r}."
        )
    raise TypeError(
        f"{said} must be conditions such as '{first}={domain.attribute(first).code_names()[0]}', names such "
        f"as ({first!r},) for all their counts, or a query of pgmjax.queries, got {type(given).__name__}."
    )


def conditions(text: str, domain: Domain, *, interpolate: bool = False) -> Conditions:
    """Return the conditions of a text.

    Args:
        text: as in `parse`.
        domain: the attributes.
        interpolate: whether a bound within a bin counts a part of the bin, as if its values were spread
            evenly (or as the attribute's `within` says); otherwise it is refused.

    Raises:
        TypeError: no text.
        ValueError: as in `parse`.

    Example:
        >>> domain = Domain({"age": {"bins": [0, 36, 46, 99]}})
        >>> conditions("age<40", domain, interpolate=True).shares["age"].tolist()
        [1.0, 0.4, 0.0]
    """
    checks.kind(text, str, "A query is a text such as 'sex=Male,age<30'", "write one")
    if not text.strip():
        raise ValueError("The query is empty: write conditions such as sex=Male,age<30.")
    written, names = text, "|".join(map(re.escape, sorted(domain.attributes, key=len, reverse=True)))
    for form, here in _AS_HERE:
        written = re.sub(form.replace("NAMES", names), here, written, flags=re.IGNORECASE)
    problem = ""
    for each in (text, written):
        try:
            return _read(each, domain, interpolate)
        except ValueError as error:
            problem = str(error)
    for said, form, here in _MEANT_SO:
        meant = re.sub(form.replace("NAMES", names), here, text.strip(), flags=re.IGNORECASE)
        if meant != text.strip() and _can_be_read(meant, domain, interpolate):
            raise ValueError(f"{said}: write {meant}.")
    raise ValueError(
        next((f"{it} " for form, it in _ADVICE.items() if re.search(form, written, re.IGNORECASE)), "")
        + problem
    )


def _can_be_read(text: str, domain: Domain, interpolate: bool) -> bool:
    with contextlib.suppress(ValueError):
        return bool(_read(text, domain, interpolate))
    return False


def _read(text: str, domain: Domain, interpolate: bool) -> Conditions:
    """Return the conditions of a text that is written as this module says."""
    quoted = _QUOTED.fullmatch(text.strip())
    inner = quoted.group(2) if quoted else ""
    if quoted and quoted.group(1) not in inner and inner not in domain and _OPERATOR.search(inner):
        text = inner  # of a shell that leaves single quotes where they are
    chosen: dict[str, _Counted] = {}
    position = 0
    while position < len(text):
        name, position = _read_name(text, position, domain)
        operator_found = _OPERATOR.match(text, position)
        if not operator_found:
            raise ValueError(_no_operator(name, text[position:]))
        word, position = operator_found[1].replace("==", "="), operator_found.end()
        values, position = _read_values(text, position, word)
        counted = chosen.setdefault(name, _Counted.all_of(domain.attribute(name)))
        try:
            counted.restrict(word, values, interpolate)
        except ValueError as error:
            joined = _JOINED if any(map(_SEVERAL.search, values)) else ""
            given = f"{word}{values[0][:1]}"
            if given in _MEANT:
                raise ValueError(f"There is no operator {given}: write {_MEANT[given]}.") from None
            raise ValueError(f"{error}{joined}") from None
        if not counted.shares.any():
            raise ValueError(
                f"No value of {name!r} satisfies what {text.strip()!r} asks: the answer is 0."
                + f" A comma means and; for either value write {name} in {{a|b}}." * ("," in text)
            )
        if position < len(text):
            if text[position] != ",":
                raise ValueError(f"Expected a comma before {text[position:].strip()!r}.")
            position += 1
            if not text[position:].strip():
                raise ValueError(
                    "The query ends with a comma: a condition is missing behind it. In a shell, put all "
                    "conditions in one pair of quotes."
                )
    notes = [note for counted in chosen.values() for note in counted.notes()]
    return Conditions({name: counted.shares for name, counted in chosen.items()}, tuple(notes))


@dataclasses.dataclass
class _Counted:
    """The codes, between two bounds, that conditions on one attribute count.

    Attributes:
        attribute: the attribute.
        codes: whether each code is counted [size].
        low: the share of each cell below the lower bound [size].
        high: the share of each cell below the upper bound [size].
    """

    attribute: Attribute
    codes: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def all_of(cls, attribute: Attribute) -> _Counted:
        return cls(attribute, np.ones(attribute.size), np.zeros(attribute.size), np.ones(attribute.size))

    @property
    def shares(self) -> np.ndarray:
        return np.asarray(self.codes * np.maximum(self.high - self.low, 0.0))

    def restrict(self, word: str, values: list[str], interpolate: bool) -> None:
        attribute = self.attribute
        if word not in _ORDER:
            equal = np.isin(np.arange(attribute.size), [code_of(attribute, value) for value in values])
            self.codes = self.codes * (~equal if word == "!=" else equal)
            return
        below = _below(attribute, word, values[0], interpolate)
        self.codes = self.codes * (np.arange(attribute.size) < len(below))  # a missing value is in no range
        below = np.append(below, np.zeros(attribute.size - len(below)))
        if word in ("<", "<="):
            self.high = np.minimum(self.high, below)
        else:
            self.low = np.maximum(self.low, below)

    def notes(self) -> list[str]:
        names, spread = self.attribute.code_names(), "as if its values were spread evenly"
        if self.attribute.within:
            spread = "as its values are spread in synthetic rows"
        return [
            f"Interpolated: {share:.3g} % of {names[code]} of {self.attribute.name!r} is counted, {spread}."
            for code, share in enumerate(100 * self.shares)
            if 0 < share < 100
        ]


def _read_name(text: str, position: int, domain: Domain) -> tuple[str, int]:
    """Read the attribute that starts here: quoted, or the longest known name followed by an operator."""
    quoted = _QUOTED.match(text, position)
    if quoted:
        found = checks.same_word(quoted.group(2), domain)
        if found is None:
            raise ValueError(_unknown(quoted.group(2), domain))
        return found, quoted.end()
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
    name = (condition[: operator_found.start()] if operator_found else condition).strip()
    found = checks.same_word(name, domain) if operator_found else None
    if found is None or operator_found is None:
        raise ValueError(_unknown(name, domain))
    return found, start + operator_found.start()


def _no_operator(name: str, rest: str) -> str:
    got = repr(rest.strip()) if rest.strip() else "nothing (put the condition in quotes in a shell)"
    if not rest.strip() or rest.lstrip().startswith(","):
        return (
            f"{name!r} alone is no condition: write, for example, {name}=VALUE, in quotes in a shell. All "
            f"counts of some attributes are a marginal: pgmjax query DIR --marginal {name}, or in Python "
            f"({name!r},), as in release.report(({name!r},))."
        )
    span = f"; a range is {name}>=18,{name}<35" if ".." in rest or rest.split()[:1] == ["in"] else ""
    return f"Expected an operator ({' '.join(_OPERATORS)}, or in {{a|b}}) behind {name!r}, got {got}{span}."


def _unknown(name: str, domain: Domain) -> str:
    known = ", ".join(domain.attributes[:30]) + (", ..." if len(domain) > 30 else "")
    for form, said in _NO_NAMES:
        if found := re.match(form, name, re.IGNORECASE):
            example = f"{domain.attributes[0]}={domain.attribute(domain.attributes[0]).code_names()[0]}"
            return found.expand(said).replace("EXAMPLE", example)
    turned = " A condition begins with a name: write age>=20,age<40 for a range, and decimals as 25.5."
    meant = f"{checks.did_you_mean(name, domain)}{turned * name[:1].isdigit()}"
    return f"Unknown attribute {name!r}; the model has {known}.{meant}"


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


def _below(attribute: Attribute, word: str, value: str, interpolate: bool) -> np.ndarray:
    """Return the share of each cell but the missing one that lies below a bound, or on it for <= and >."""
    name, included = attribute.name, word in ("<=", ">")
    bound = _number(attribute, value)
    if attribute.labels is not None and len(attribute.numbers or ()) < len(attribute.labels):
        raise ValueError(f"The labels of {name!r} are words without an order: use = or in {{a|b}}.")
    if bound is None:
        what = "a number such as 1234.5" if attribute.time is None else "a date such as 2021-01-01"
        raise ValueError(f"{name!r} {word} needs {what}, got {value!r}.")
    if attribute.bins is not None:
        return _below_in_bins(attribute, value, bound, included, interpolate)
    points = attribute.numbers or range(attribute.size - attribute.missing)
    return np.array([point < bound or (included and point == bound) for point in points], np.float64)


def _below_in_bins(
    attribute: Attribute, value: str, bound: float, included: bool, interpolate: bool
) -> np.ndarray:
    """Return the share of each bin below a bound; bins are [low, high), the last is closed without a grid."""
    name, edges = attribute.name, np.array(attribute.bins, np.float64)
    checks.refuse(
        (
            attribute.grid is None and bound == edges[-1] and not included and not attribute.clip,
            f"The last bin of {name!r} includes its upper edge, {value}, and is not told apart from it: "
            f"write {name}<={value} for all, or {name}>={edges[-2]:g} for the last bin.",
        ),
        (
            attribute.grid is None and bound in edges[1 if attribute.clip else 0 : -1] and included,
            f"The bins of {name!r} include their lower edge and not their upper: "
            f"write {name}<{value} for {name}<={value}, or {name}>={value} for {name}>{value}.",
        ),
    )
    starts, ends, cell, weights = attribute.pieces()
    shares = weights * _below_in_pieces(attribute.grid, starts, ends, bound, included)
    below = np.bincount(cell, shares) / np.bincount(cell, weights)
    cut = (below > 0) & (below < 1)
    if attribute.clip:  # of the values that an end bin counts beyond the ends, how many, nobody knows
        cut[0] |= bound <= edges[0]
        cut[-1] |= bound >= edges[-1]
    beyond = attribute.clip and not edges[0] < bound < edges[-1]
    if cut.any() and (beyond or not interpolate):
        ends = edges[1:-1] if attribute.clip else edges
        near = [*ends[ends < bound][-1:], *ends[ends > bound][:1]]
        words = " and ".join(edge_text(attribute, edge) for edge in near)
        raise ValueError(f"{value} cuts through a bin of {name!r}; nearest edges: {words or 'none'}.")
    return np.asarray(below)


def _below_in_pieces(
    grid: float | None, low: np.ndarray, high: np.ndarray, bound: float, included: bool
) -> np.ndarray:
    """Return the share of evenly spread values in [low, high) that are below a bound, or on it."""
    if grid is None:
        return np.clip((bound - low) / (high - low), 0.0, 1.0)
    steps = np.round((bound - low) / grid, 6)
    points = np.floor(steps) + 1 if included else np.ceil(steps)
    return np.asarray(np.clip(points / np.rint((high - low) / grid), 0.0, 1.0))


def _number(attribute: Attribute, value: str) -> float | None:
    """Return the number, or the day or second of the date, that a text stands for."""
    number = None
    if attribute.bins is not None:
        notation = Notation(attribute.grid, attribute.time, attribute.format, attribute.decimal)
        number = notation.number(value)
        if number is None and attribute.time is not None:
            number = Notation(time=attribute.time).number(value)
    if number is None and attribute.time is None:
        try:
            number = float(value)
        except ValueError:
            return None
    return number if number is not None and math.isfinite(number) else None
