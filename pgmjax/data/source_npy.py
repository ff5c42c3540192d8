"""NumPy files of codes, mapped into memory and read in batches."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pgmjax.data import fingerprint
from pgmjax.data.domain import Domain
from pgmjax.data.sources import BATCH_ROWS, Batch, code_coder


@dataclass(frozen=True)
class NpySource:
    """A table of codes in a .npy file, scanned anew each time.

    Attributes:
        domain: the domain of its records; columns stand in its order.
        path: the file.
    """

    domain: Domain
    path: pathlib.Path

    def batches(self, names: Sequence[str], ordered: bool = False) -> Iterator[Batch]:
        """Yield all records in batches, always in order, with the attributes named.

        Raises:
            ValueError: the file cannot be read any more.
        """
        codes = _mapped(self.path, self.domain)
        places = {name: place for place, name in enumerate(self.domain)}
        for start in range(0, len(codes), BATCH_ROWS):
            part = np.asarray(codes[start : start + BATCH_ROWS]).reshape(-1, len(self.domain))
            columns = {
                name: code_coder(self.domain[name]).encode_numbers(
                    np.ascontiguousarray(part[:, places[name]])
                )
                for name in names
            }
            yield Batch(columns, None, len(part))

    @property
    def layout(self) -> dict[str, str]:
        """The columns by attribute: their numbers."""
        return {name: str(place) for place, name in enumerate(self.domain)}

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed digest of the file's bytes."""
        return fingerprint.of_path(self.path, key)


def open_npy(file: pathlib.Path, domain: Domain, weights: str | None) -> NpySource:
    """Check the form of a .npy file: integer codes [rows, attributes], or [rows] of one attribute.

    Raises:
        TypeError: it holds no integers.
        ValueError: weights are named, or it is damaged or of another shape.
    """
    if weights is not None:
        raise ValueError("A .npy file has codes only and no column of weights: leave out the weights.")
    _mapped(file, domain)
    return NpySource(domain, file)


def _mapped(file: pathlib.Path, domain: Domain) -> np.ndarray:
    try:
        codes = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        codes = None
    if not isinstance(codes, np.ndarray):
        raise ValueError(f"{file} cannot be read as a .npy file.")
    if codes.ndim not in (1, 2) or (1 if codes.ndim == 1 else codes.shape[1]) != len(domain):
        raise ValueError(
            f"{file.name} must have a row a record and a column for each of the domain's {len(domain)} "
            f"attributes, got shape {codes.shape}."
        )
    if codes.dtype.kind not in "iu":
        raise TypeError(f"{file.name} must hold integer codes, got {codes.dtype}.")
    return codes
