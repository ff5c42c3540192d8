"""The holder's definition of a table: its widest domain, its weights, and what happens to rows outside.

Whoever holds a table decides these once, when its budget is registered. Whoever asks may then choose a
domain of their own, as long as it only merges cells of the holder's: then every record has a code, and no
error can tell whether a record lies outside a domain.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import Attribute
from pgmjax.data.domain import Domain
from pgmjax.data.draft import Draft
from pgmjax.data.encoding import MISSING, OUTSIDE, UNREADABLE, Coder, code_dtype
from pgmjax.data.relation import Relation, Unit, check_unit
from pgmjax.data.value import moment_text

ROWS_OUTSIDE = ("clip", "missing", "drop")
LARGEST_WEIGHT = (1 << 31) - 1  # below 2^32 records their total fits into 64 bits


@dataclass(frozen=True)
class TableDefinition:
    """The definition of a table by its holder, public.

    Attributes:
        domain: the widest domain that may be asked about.
        weights: name of the column of record weights, or None.
        max_weight: the largest weight, 1 to 2^31 - 1; None without weights.
        rows_outside: what happens to a record with a value outside the domain. "clip": numbers beyond
            the bins (or codes, or weights) count at the end; "missing": the value counts as missing, where
            the attribute has a bucket for that; "drop": the record is left out. None: there is none such.
        unit: the unit of privacy; None for one record.
        encoding: of its text files; None: UTF-8, or UTF-16 by the mark of that.

    Guarantees:
        Each of the three maps one record to one record or to none, whatever the others are. So tables that
        are neighbours under ADD_REMOVE stay so, and under REPLACE_ONE too, except that "drop" makes the
        number of records private. Whoever asks cannot choose the encoding, in which one record could shift
        all that follow it.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: weights without their bound or the other way round, or a value out of range.

    Example:
        >>> held = TableDefinition(Domain({"age": {"bins": [0, 20, 40, 60]}, "sex": 2}))
        >>> held.tables(Domain({"age": {"bins": [0, 40, 60]}}))["age"].tolist()
        [0, 0, 1]
    """

    domain: Domain
    weights: str | None = None
    max_weight: int | None = None
    rows_outside: str | None = None
    unit: Unit | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        checks.kind(self.domain, Domain, "domain must be a pgmjax.Domain")
        if (self.weights is None) != (self.max_weight is None):
            raise ValueError(
                "weights, the name of a column, and max_weight go together: give both or neither."
            )
        if self.weights is not None:
            if not isinstance(self.weights, str) or self.weights in self.domain:
                raise ValueError("weights must name a column that is not an attribute of the domain.")
            checks.set_integers(self, "max_weight", low=1, high=LARGEST_WEIGHT)
        check_rows_outside(self.rows_outside)
        check_unit(self.unit, self.domain, self.weights)
        object.__setattr__(self, "encoding", known_encoding(self.encoding))

    def to_dict(self) -> dict[str, Any]:
        """Return the definition for JSON; `from_dict` reads it back."""
        return {
            "domain": self.domain.to_dict(),
            "weights": self.weights,
            "max_weight": self.max_weight,
            "rows_outside": self.rows_outside,
            **({} if self.unit is None else {"unit": self.unit.to_dict()}),
            **({} if self.encoding is None else {"encoding": self.encoding}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TableDefinition:
        """Return the definition that `to_dict` wrote."""
        unit = Unit.from_dict(record.get("unit"))
        given = {name: record[name] for name in ("weights", "max_weight", "rows_outside")}
        return cls(Domain(record["domain"]), **given, unit=unit, encoding=record.get("encoding"))

    def tables(self, domain: Domain) -> dict[str, np.ndarray]:
        """Return, for each attribute of another domain, its code of every code of this one [size].

        Args:
            domain: some of the attributes, with the same codes or with merged ones.

        Raises:
            ValueError: the other domain does not merge this one's cells; the message depends on the two
                domains only.
        """
        for name in domain:
            if name not in self.domain:
                raise ValueError(
                    f"{name!r} is not in the domain with which this table was registered. Its attributes are "
                    f"{', '.join(self.domain)}."
                )
        return {name: _merged(self.domain.attribute(name), domain.attribute(name)) for name in domain}

    def check_weights(self, name: str | None, max_weight: int) -> None:
        """Refuse weights that are not the holder's.

        Args:
            name: the column they are read from; None if it has no name.
            max_weight: their bound.

        Raises:
            ValueError: another column or another bound; counts without weights may always be asked for.
        """
        checks.refuse(
            (self.weights is None, "This table was registered without weights: leave them out."),
            (
                (name is not None and name != self.weights) or max_weight != self.max_weight,
                f"This table was registered with the weights {self.weights!r} and max_weight "
                f"{self.max_weight}: ask with these, or without weights.",
            ),
        )


@dataclass(frozen=True)
class OpenDefinition:
    """The definition of a table by its holder, who leaves columns open that a charged run may discover.

    Every value of an open column has a place in whatever domain is found, and the holder has checked the
    values of the others, so that no error can tell anything of a record.

    Attributes:
        draft: what is known of the columns, at least one of which is open.
        relation: the neighbouring relation.
        unit: the unit of privacy; None for one record.
        encoding: as in `TableDefinition`.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no column is open, or the column of the unit is among them.

    Example:
        >>> draft = Draft({"sex": {"labels": ["F", "M"]}, "age": {"bins": "discover"}})
        >>> OpenDefinition(draft, Relation.ADD_REMOVE).rows_outside
        'drop'
    """

    draft: Draft
    relation: Relation
    unit: Unit | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        checks.kind(self.draft, Draft, "draft must be a pgmjax.data.Draft")
        object.__setattr__(self, "relation", Relation.parse(self.relation))
        if not self.draft.open:
            raise ValueError("No column is open: give the domain itself, with all its columns.")
        check_unit(self.unit, self.draft.columns, None)
        object.__setattr__(self, "encoding", known_encoding(self.encoding))

    @property
    def rows_outside(self) -> str:
        """Treatment of values that a found domain has no place for, see `outside_of_found`."""
        return outside_of_found(self.relation)

    @property
    def described(self) -> TableDefinition | None:
        """The definition of the described columns alone; None if there are none."""
        return self.closed_by(Domain(self.draft.closed)) if self.draft.closed else None

    def closed_by(self, domain: Domain) -> TableDefinition:
        """Return the definition of the table by a domain that was found.

        Raises:
            ValueError: it is no domain of the draft's columns.
        """
        strange = [name for name in domain if name not in self.draft.columns]
        changed = [
            name
            for name, one in self.draft.closed.items()
            if name not in domain or domain.attribute(name) != one
        ]
        if strange or changed:
            raise ValueError(f"The domain does not complete the draft: see {', '.join(strange + changed)}.")
        return TableDefinition(domain, rows_outside=self.rows_outside, unit=self.unit, encoding=self.encoding)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition for JSON; `from_dict` reads it back."""
        return {
            "draft": self.draft.to_dict(),
            "relation": self.relation.value,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "encoding": self.encoding,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> OpenDefinition:
        """Return the definition that `to_dict` wrote."""
        unit = Unit.from_dict(record["unit"])
        return cls(Draft(record["draft"]), Relation.parse(record["relation"]), unit, record["encoding"])


def outside_of_found(relation: Relation) -> str:
    """Return what happens to values that a found domain has no place for.

    Their records are left out under ADD_REMOVE. Where the number of records is public the values count as
    missing, and everything that is found has a place for these.
    """
    return "missing" if relation is Relation.REPLACE_ONE else "drop"


def instead_of_drop(domain: Domain) -> str:
    """Return what to do with rows outside a domain where the number of records is public."""
    every = [domain.attribute(name) for name in domain]
    ways = ['"missing"'] * all(one.missing for one in every)
    ways += ['"clip" (for numbers beyond the ends)'] * any(one.labels is None for one in every)
    listed = " or ".join(ways)
    filled = "" if ways[:1] == ['"missing"'] else "write `missing: true` where values are missing, and "
    return f"{filled}take {f'rows_outside {listed}, or ' if ways else ''}the relation add-remove"


def known_encoding(encoding: str | None) -> str | None:
    """Return Python's name of a text encoding, None for UTF-8.

    Raises:
        TypeError: it is no name.
        ValueError: there is no encoding of that name.
    """
    if encoding is None:
        return None
    checks.kind(encoding, str, "encoding must be the name of an encoding")
    try:
        name = codecs.lookup(encoding).name
        " ,".encode(name)
    except (LookupError, ValueError):
        raise ValueError(
            f"encoding must be that of a text file, such as utf-8, cp1252 or utf-16, got {encoding!r}"
            f"{': what Windows calls ANSI is cp1252 in the west' * (encoding.lower() == 'ansi')}."
        ) from None
    return None if name in ("utf-8", "utf-8-sig", "ascii") else name


def check_rows_outside(rows_outside: str | None) -> str | None:
    """Return a treatment of rows outside the domain, checked."""
    return None if rows_outside is None else checks.choice("rows_outside", rows_outside, ROWS_OUTSIDE)


def coder_of(attribute: Attribute, rows_outside: str | None) -> Coder:
    """Return the encoder of an attribute, which clips where rows outside are clipped."""
    clips = rows_outside == "clip" and not attribute.clip
    return attribute.coder_with(clip=True) if clips else attribute.coder


def _merged(fine: Attribute, coarse: Attribute) -> np.ndarray:
    """Return the code in `coarse` of every code in `fine` [size]."""
    regular = fine.size - fine.missing
    if fine.bins is not None:
        codes = _merged_bins(fine, coarse)
    else:
        values = fine.labels if fine.labels is not None else range(regular)
        codes = coarse.coder.raw_codes(values)
        lacking = np.count_nonzero((codes == OUTSIDE) | (codes == UNREADABLE))
        checks.refuse(
            (
                lacking,
                f"The domain's {coarse.name!r} must have a place for each value in the domain with which the "
                f"table was registered, and lacks {lacking} of its {regular}.",
            ),
            (
                fine.other and not coarse.other,
                f"{coarse.name!r} has a code for other values in the domain with which the table was "
                "registered, so it must have one in this domain (other: true).",
            ),
        )
        if fine.other:
            codes = np.append(codes, coarse.size - coarse.missing - 1)
    if fine.missing:
        codes = np.append(codes, MISSING)
    if (codes == MISSING).any() and not coarse.missing:
        raise ValueError(
            f"{coarse.name!r} has a bucket for missing values in the domain with which the table was "
            "registered, so it must have one in this domain (missing: true)."
        )
    codes[codes == MISSING] = coarse.size - 1
    return codes.astype(code_dtype(coarse.size))


def _merged_bins(fine: Attribute, coarse: Attribute) -> np.ndarray:
    assert fine.bins is not None
    if coarse.bins is None:
        raise ValueError(
            f"{coarse.name!r} has bins in the domain with which the table was registered: give it bins here, "
            "with edges of those."
        )
    if fine.time != coarse.time:
        raise ValueError(
            f"{coarse.name!r} must be read as in the domain with which the table was registered: as dates by "
            "the same steps, days or seconds, or as numbers."
        )
    low, high = fine.bins[0], fine.bins[-1]
    strange = [edge for edge in coarse.bins if low < edge < high and edge not in fine.bins]
    beyond = not coarse.clip and (coarse.bins[0] > low or coarse.bins[-1] < high)
    if strange or beyond:
        why = "reach from end to end of those (or clip)" if beyond else "lie on edges of those"
        edges = [moment_text(edge, fine.time) if fine.time else f"{edge:g}" for edge in fine.bins]
        listed = f"{', '.join(edges[:12])}{f', ..., {edges[-1]}' * (len(edges) > 12)}"
        raise ValueError(
            f"The bins of {coarse.name!r} must {why} with which the table was registered: {listed}. (pgmjax "
            "ledger show --name NAME --domain FILE writes that domain.)"
        )
    # a cell lies within one coarse cell or beyond them all, and so does its lower edge
    lower = np.clip(fine.bins[:-1], coarse.bins[0], coarse.bins[-1])
    return np.minimum(np.searchsorted(coarse.bins, lower, side="right"), len(coarse.bins) - 1) - 1
