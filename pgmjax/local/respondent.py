"""Randomised response without a table: each respondent answers alone, and a collector joins the answers.

A respondent's program sees one record and draws its answers; nothing else leaves it. The collector sees
answers only, and estimates from those that have arrived so far.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks, formats
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain, as_domain
from pgmjax.local.table import PerturbedTable, ResponseColumn, read_column


@dataclasses.dataclass(frozen=True)
class PerturbedRecord:
    """The perturbed answers of one record.

    Attributes:
        id: a random name, by which a collector knows an answer that arrives twice.
        columns: the answers about each group of attributes, of one row.
        secure: whether their noise came from a vetted sampler that nobody can reproduce.
        domain: a digest of the attributes asked for and their values, by which a collector knows that its
            domain is the respondents'.

    Guarantees:
        Local epsilon-DP of the record's values, epsilon being the sum over the columns, if `secure`; see
        `mechanisms.RandomizedResponse`. The name is drawn apart from the record.
    """

    id: str
    columns: tuple[ResponseColumn, ...]
    secure: bool
    domain: str

    def to_dict(self) -> dict[str, Any]:
        """Return the response for JSON."""
        columns = [{**each.to_dict(), "answer": each.answers[0].tolist()} for each in self.columns]
        return {
            **formats.RESPONSE.heading(),
            "id": self.id,
            "secure": self.secure,
            "domain": self.domain,
            "columns": columns,
        }

    @classmethod
    def from_dict(cls, record: Any) -> PerturbedRecord:
        """Return the response that `to_dict` wrote.

        Raises:
            ValueError: it is none, or damaged.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"a response must be a JSON object, got {type(record).__name__}.")
        if "format" not in record:
            raise ValueError(
                "this is a record, or something else, and no perturbed response: make one of each record by "
                "local.respond(domain, record, mechanism), or pgmjax respond."
            )
        formats.RESPONSE.check(record, "the response")
        try:
            checks.kind(record["id"], str, "id must be text")
            name = checks.plain_text("id", record["id"])
            checks.kind(record["domain"], str, "domain must be text")
            columns = tuple(_column(each) for each in record["columns"])
            asked = [attribute for each in columns for attribute in each.attributes]
            checks.refuse(
                (not name or not columns or not isinstance(record["secure"], bool), "a part of it is empty"),
                (
                    len({*asked}) < len(asked) or not all(isinstance(each, str) for each in asked),
                    "it must answer about each attribute once",
                ),
            )
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"the response is damaged: {error}") from error
        return cls(name, columns, record["secure"], record["domain"])

    @property
    def design(self) -> tuple[tuple[Any, ...], ...]:
        """The questions and the probabilities by which the answers were drawn."""
        return tuple(tuple(map(str, each.to_dict().values())) for each in self.columns)


def _column(record: Mapping[str, Any]) -> ResponseColumn:
    direct = record["encoding"] == "direct"
    kind = np.min_scalar_type(record["size"] - 1) if direct else np.uint8
    values = np.array([record["answer"]])
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() > np.iinfo(kind).max:
        raise ValueError("an answer must be a category, or bytes of bits")
    column = read_column(dict(record), values.astype(kind))
    column.part(0, 1)  # refuses a category out of range
    return column


def _digest(domain: Domain, names: Iterable[str]) -> str:
    """Return a digest of some attributes and their values, however the domain orders the attributes."""
    specs = {name: domain.attribute(name).to_spec() for name in names}
    return hashlib.sha256(json.dumps(specs, sort_keys=True, default=str).encode()).hexdigest()[:32]


def respond(domain: Domain, record: Mapping[str, Any], mechanism: Any) -> PerturbedRecord:
    """Return the perturbed answers of one record. This spends the mechanism's epsilon of its privacy.

    Args:
        domain: the public domain.
        record: for each attribute that is asked for, a label, a number in a bin, or a code.
        mechanism: a `mechanisms.RandomizedResponse`, with epsilon, groups (`universe`) and encoding.

    Raises:
        TypeError: the domain, the record or the mechanism is none.
        ValueError: an attribute is missing or unknown, or a value is not in the domain; it is not shown.

    Example:
        >>> import pgmjax as pj
        >>> ask = pj.mechanisms.RandomizedResponse(1, "replace-one", useless="answer")
        >>> answer = respond(pj.Domain({"sex": ["F", "M"]}), {"sex": "F"}, ask)
        >>> answer.columns[0].attributes, answer.secure
        (('sex',), True)
    """
    domain = as_domain(domain, "respond(domain, record, mechanism)", record, mechanism)
    if not hasattr(mechanism, "perturb"):
        raise TypeError(
            f"mechanism must be a mechanisms.RandomizedResponse, got {type(mechanism).__name__}: write "
            'RandomizedResponse(epsilon=2, relation="replace-one").'
        )
    checks.kind(
        record,
        Mapping,
        "record must be one record, a mapping of attributes to values",
        "of a frame write frame.iloc[0].to_dict()" if hasattr(record, "iloc") else "",
    )
    for name in record:
        domain.attribute(name)
    codes = {}
    for name, value in record.items():
        try:
            codes[name] = domain.attribute(name).encode([value])
        except (TypeError, ValueError):
            raise ValueError(
                f"The value of {name!r} is not in the domain. It has "
                f"{', '.join(map(str, domain.attribute(name).code_names()[:10]))}. Give one value of one "
                "record. Nothing was answered."
            ) from None
    listed = mechanism.universe if not isinstance(mechanism.universe, str) else None
    asked = tuple(domain) if listed is None else tuple(name for group in listed for name in group)
    if missing := [name for name in asked if name not in codes]:
        raise ValueError(f"The record lacks {', '.join(missing)}: give every attribute that is asked for.")
    some = domain.project(tuple(name for name in domain if name in asked))
    data = Dataset.from_columns(some, {name: codes[name] for name in some})
    # what one record says is always useless; the collector has many
    mechanism = dataclasses.replace(mechanism, useless="answer")
    table = mechanism.perturb(data, row_order="table", row_order_is_public=True, show_progress=False)
    return PerturbedRecord(uuid.uuid4().hex, tuple(table.columns), table.secure, _digest(domain, some))


def collect(domain: Domain, responses: Iterable[PerturbedRecord | Mapping[str, Any]]) -> PerturbedTable:
    """Return the answers that have arrived as one perturbed table, without the order of their arrival.

    Args:
        domain: the public domain, as the respondents had it.
        responses: all of one design: groups, encodings and probabilities; as `respond` returns them, or as
            the content of its JSON.

    Raises:
        TypeError: they are no responses.
        ValueError: there is none, one arrived twice, they are of different designs, or not of this domain.

    Guarantees:
        Post-processing of the responses.
    """
    domain = as_domain(domain, "collect(domain, responses)", responses)
    if isinstance(responses, PerturbedRecord | str | Mapping) or not isinstance(responses, Iterable):
        raise TypeError(
            f"responses must be a list of what respond returned, got {type(responses).__name__}: of a file "
            "of pgmjax respond write [json.loads(line) for line in open(path)]."
        )
    arrived = [PerturbedRecord.from_dict(each) if isinstance(each, Mapping) else each for each in responses]
    if not arrived:
        raise ValueError("No response has arrived: there is nothing to estimate from.")
    first, seen = arrived[0], dict[str, int]()
    for number, each in enumerate(arrived, start=1):
        if not isinstance(each, PerturbedRecord):
            raise TypeError(
                f"response {number} must be what respond returned, or that read from JSON by json.loads, got "
                f"{type(each).__name__}."
            )
        if (before := seen.setdefault(each.id, number)) != number:
            raise ValueError(f"Responses {before} and {number} are the same one ({each.id}): keep one.")
        if each.design != first.design:
            raise ValueError(
                f"Responses 1 and {number} (id {each.id}) answer different questions, or with other "
                "probabilities: collect those of one domain, epsilon, grouping and encoding together."
            )
    asked = [name for column in first.columns for name in column.attributes]
    known = _digest(domain, asked) if {*asked} <= {*domain} else ""
    for number, each in enumerate(arrived, start=1):
        if each.domain != known:
            raise ValueError(
                f"Response {number} about {', '.join(asked)} was made with another domain: give the domain "
                "file of the respondents, with the same values in the same order."
            )
    joined = [
        np.concatenate([each.columns[k].answers for each in arrived]) for k in range(len(first.columns))
    ]
    order = np.lexsort([row for each in reversed(joined) for row in each.reshape(len(arrived), -1).T[::-1]])
    columns = tuple(
        dataclasses.replace(column, answers=answers[order])
        for column, answers in zip(first.columns, joined, strict=True)
    )
    some = domain.project(tuple(name for name in domain if name in asked))
    mark = hashlib.sha256("".join(sorted(seen)).encode()).hexdigest()
    secure = all(each.secure for each in arrived)
    return PerturbedTable(some, columns, len(arrived), secure, None, row_order="sorted", run_mark=mark)
