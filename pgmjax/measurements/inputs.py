"""Inputs: what a result was computed from, with what each cost and whether its noise protects.

A measurement, a model and a release carry the inputs that they were computed from, in memory and in their
files. What a result promises is computed over all of them: it is secure if every input is, and costs add up.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.relation import Relation, Unit

MEASURED, PRIOR, START, PUBLIC = "measured", "prior", "start", "public"
ROLES = (MEASURED, PRIOR, START, PUBLIC)
KEY = "inputs"
"""Where a file or its metadata keeps the inputs, as JSON."""
_COSTS = ("epsilon", "delta", "rho")
_NUMBER = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?(/[0-9]{1,400})?")
_Carrier = TypeVar("_Carrier")


@dataclasses.dataclass(frozen=True)
class Input:
    """One thing that a result was computed from.

    Attributes:
        name: what it is, such as "a release by 'mst'".
        secure: whether its noise protects; None if it has none that is known of, as a public fact.
        cost: epsilon, delta and rho as exact texts, such as {"epsilon": "0.1", "delta": "0"}; None for what
            is taken to be public, or was published elsewhere without word of what it cost.
        label_delta: the part of delta that is the probability that a search for labels shows a label that one
            unit alone has; exact text.
        relation: the neighbouring relation of the cost.
        unit: the unit of privacy of the cost, for JSON; None for one record.
        answers: digest of the released numbers. An input that comes in by two ways is one by it.
        role: one of `ROLES`: the numbers that were fitted, a prior, a model that a fit began with, or a
            public fact that a fit had to meet.

    Raises:
        TypeError: a field of another type.
        ValueError: an unknown role or relation, a name with control characters, or a cost that is no number.

    Example:
        >>> Input("a release by 'mst'", True, {"epsilon": "1", "delta": "0"}, relation="add-remove").words
        "a release by 'mst' (epsilon = 1, delta = 0)"
        >>> Input("a prior", None, role=PRIOR).words
        'a prior (taken to be public)'
    """

    name: str
    secure: bool | None
    cost: Mapping[str, str] | None = None
    label_delta: str = "0"
    relation: str | None = None
    unit: Mapping[str, Any] | None = None
    answers: str = ""
    role: str = MEASURED

    def __post_init__(self) -> None:
        if not (self.secure is None or isinstance(self.secure, bool)):
            raise TypeError(f"secure must be True, False or None, got {type(self.secure).__name__}.")
        checks.set_choice(self, "role", ROLES)
        checks.plain_text("The name of an input", self.name)
        checks.plain_text("The digest of an input", self.answers)
        if self.relation is not None:
            Relation.parse(self.relation)
        Unit.from_dict(self.unit)
        for name, number in {**(self.cost or {}), "delta of labels": self.label_delta}.items():
            if name not in (*_COSTS, "delta of labels") or not _NUMBER.fullmatch(number):
                raise ValueError(f"The cost of an input must be {', '.join(_COSTS)} as exact texts.")

    @property
    def words(self) -> str:
        """Its name and its cost, and that it protects nobody if so."""
        cost = "taken to be public"
        if self.cost is not None:
            cost = ", ".join(f"{name} = {value}" for name, value in self.cost.items())
        return f"{self.name} ({cost}{'; NOT SECURE' if self.secure is False else ''})"


def merged(*groups: Iterable[Input]) -> tuple[Input, ...]:
    """Return inputs in order, each once."""
    found: dict[Any, Input] = {}
    for group in groups:
        for each in group:
            found.setdefault((each.answers or each.name, str(each.cost), each.secure), each)
    return tuple(found.values())


def are_secure(inputs: Iterable[Input]) -> bool:
    """Return whether no input has noise that protects nobody."""
    return all(each.secure is not False for each in inputs)


def of_measurements(measurements: Iterable[Any]) -> tuple[Input, ...]:
    """Return the inputs of several measurements, each once."""
    return merged(*(each.inputs for each in measurements))


def in_role(inputs: Sequence[Input], role: str, unknown: str) -> tuple[Input, ...]:
    """Return the inputs of a model in the role that the model has; of one without inputs, a public one.

    Args:
        inputs: of the model.
        role: its role.
        unknown: the name of a model whose inputs nobody stated.
    """
    return tuple(dataclasses.replace(each, role=role) for each in inputs or (Input(unknown, None),))


def with_inputs(carrier: _Carrier, inputs: Iterable[Input]) -> _Carrier:
    """Return a copy of a measurement or a model that carries other inputs; arrays and caches are shared."""
    made = object.__new__(type(carrier))
    vars(made).update({**vars(carrier), "inputs": tuple(inputs)})
    return made


def to_list(inputs: Iterable[Input]) -> list[dict[str, Any]]:
    """Return inputs for JSON."""
    return [dataclasses.asdict(each) for each in inputs]


def marks(inputs: Sequence[Input], secure: bool | None = None) -> dict[str, str]:
    """Return what the metadata of a file says of its inputs: `inputs` as JSON, and `secure`, if it is known.

    Args:
        inputs: of what is in the file.
        secure: what else is known of its noise, which can only deny that it is secure.
    """
    stated = [each for each in (secure, *(each.secure for each in inputs)) if each is not None]
    listed = {KEY: json.dumps(to_list(inputs))}
    return {**listed, "secure": "true" if all(stated) else "false"} if stated else listed


def from_list(records: Iterable[Mapping[str, Any]]) -> tuple[Input, ...]:
    """Return the inputs that `to_list` wrote.

    Raises:
        TypeError, ValueError: they are none.
    """
    return tuple(Input(**record) for record in records)


def digest_of(arrays: Iterable[np.ndarray], *words: str) -> str:
    """Return a digest of released numbers, which are public."""
    found = hashlib.sha256("\n".join(words).encode())
    for array in arrays:
        found.update(f"\n{array.dtype} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).data)  # no copy of what is mapped from a file
    return found.hexdigest()
