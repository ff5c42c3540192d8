"""What the records of a table answered about one group of attributes, in the order of the table."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.privacy.exact import as_text, exact_epsilon
from pgmjax.privacy.response import RandomizedResponse, ResponseLaw, UnaryResponse

ENCODINGS = {"direct": RandomizedResponse, "optimal-unary": UnaryResponse, "symmetric-unary": UnaryResponse}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ResponseColumn:
    """Released answers about a group of attributes.

    Attributes:
        attributes: the group; a record's category is its cell, row-major in this order.
        encoding: "direct", "optimal-unary" or "symmetric-unary".
        law: the law of an answer, with its size and lie.
        epsilon: what the answers cost.
        answers: in memory or mapped from a file: categories of the smallest unsigned type [rows], or of
            unary encodings a record's bits packed into bytes, uint8 [rows, ceil(size / 8)].
    """

    attributes: Clique
    encoding: str
    law: ResponseLaw
    epsilon: Fraction
    answers: np.ndarray

    @property
    def unary(self) -> bool:
        """Whether records answered with a bit a category."""
        return isinstance(self.law, UnaryResponse)

    @property
    def codes(self) -> np.ndarray:
        """The answered categories, unsigned integers [rows], in the order of the table.

        Raises:
            ValueError: records answered with a bit a category, and not with one category.
        """
        if self.unary:
            raise ValueError(
                f"The answers about {self.attributes} are bits of the encoding {self.encoding!r}, not "
                'categories: perturb the table with encoding="direct".'
            )
        return self.answers

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return the answers of some records: categories [rows], or bits, bool [rows, size].

        Raises:
            ValueError: a category that there is none of: the file was damaged.
        """
        some = self.answers[start:stop]
        if not self.unary:
            if some.size and some.max() >= self.law.size:
                raise ValueError(
                    f"the answers about {self.attributes} are damaged: expected categories from 0 to "
                    f"{self.law.size - 1:,}. Make or copy the table again."
                )
            return np.asarray(some)
        return np.unpackbits(some, axis=1, count=self.law.size).view(np.bool_)

    def to_dict(self) -> dict[str, Any]:
        """Return what `read_column` reads, beside the answers."""
        return {
            "attributes": list(self.attributes),
            "encoding": self.encoding,
            "size": self.law.size,
            "lie": repr(self.law.lie),
            "epsilon": as_text(self.epsilon),
        }

    def __repr__(self) -> str:
        return (
            f"ResponseColumn({self.attributes}, {self.law.size:,} categories, {self.encoding}, epsilon "
            f"{as_text(self.epsilon)})"
        )


def law_of(encoding: str, size: int, lie: float) -> ResponseLaw:
    """Return the law of an encoding's answers.

    Raises:
        ValueError: no such encoding, or numbers out of range.
    """
    checks.choice("encoding", encoding, tuple(ENCODINGS))
    if encoding == "direct":
        return RandomizedResponse(size, lie)
    return UnaryResponse(size, lie, encoding == "symmetric-unary")


def read_column(record: dict[str, Any], answers: np.ndarray) -> ResponseColumn:
    """Return the column that `ResponseColumn.to_dict` wrote down.

    Raises:
        KeyError: something is missing.
        ValueError: a number out of range, or answers of another shape; categories are checked when used.
    """
    law = law_of(record["encoding"], record["size"], float(record["lie"]))
    epsilon = exact_epsilon(record["epsilon"])
    if law.epsilon_bound > epsilon:
        raise ValueError("the law of some answers costs more than their epsilon.")
    column = ResponseColumn(tuple(record["attributes"]), record["encoding"], law, epsilon, answers)
    expected = (len(answers), -(-law.size // 8)) if column.unary else (len(answers),)
    if answers.dtype.kind != "u" or answers.shape != expected:
        raise ValueError(f"the answers about {column.attributes} have another shape or type than written.")
    return column
