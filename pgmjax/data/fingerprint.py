"""Keyed fingerprints of tables, which identify a table to the holder of the key only.

A plain hash of a small table can be searched for: hash every likely table and compare. With a secret
key it cannot. Equal bytes (files) or equal columns (memory) have equal fingerprints; the same records
in another order or another file format have another. `content` digests all columns that a table in memory
was given with, whatever their values; it has no key and must not leave the process.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks

_CHUNK = 1 << 20
_SHORTEST = 16
_FORM = b"pgmjax fingerprint 1 "


def of_path(path: str | os.PathLike[str], key: bytes) -> str:
    """Return the fingerprint of a table in files: of a file's bytes, or of a folder's .parquet files.

    Args:
        path: a file of any kind, or a folder of .parquet files at any depth, which are identified by
            their paths in the folder. Files whose names start with "." or "_" are ignored.
        key: a secret, at least 16 bytes.

    Returns:
        HMAC-SHA256, 64 hexadecimal digits. Files are read in pieces, so memory use is small.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the folder has no .parquet file.
    """
    place = pathlib.Path(path)
    if not place.exists():
        raise FileNotFoundError(f"There is no table at {place}.")
    if not place.is_dir():
        return _of_files(key, b"file", [(b"", place)])
    parts = [(part.relative_to(place).as_posix().encode(), part) for part in parts_of(place)]
    return _of_files(key, b"folder", sorted(parts))


def parts_of(path: pathlib.Path) -> list[pathlib.Path]:
    """Return a file, or the .parquet files of a folder at any depth, in the order of their paths.

    Files and folders whose names start with "." or "_" are left out: there writers of Parquet keep their own.

    Raises:
        ValueError: the folder has none, or holds a release.
    """
    if not path.is_dir():
        return [path]
    inside = [
        (part, part.relative_to(path).parts) for part in path.rglob("*") if part.suffix.lower() == ".parquet"
    ]
    parts = [part for part, names in inside if part.is_file() and not any(n[0] in "._" for n in names)]
    releases = [part.parent for part in parts if (part.parent / "release.json").is_file()]
    if releases:
        raise ValueError(
            f"The folder {path} holds a release, {releases[0]}, whose files are no parts of a table: name "
            "the file, or the folder, that is the table."
        )
    if not parts:
        raise ValueError(
            f"The folder {path} holds no .parquet file, and only these are read from a folder: name a file."
        )
    return sorted(parts)


def stamp_of(file: pathlib.Path) -> tuple[Any, ...]:
    """Return name, inode, size and times of a file, which change when it does."""
    found = file.stat()
    return str(file), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def of_columns(columns: Mapping[str, Any], key: bytes) -> str:
    """Return the fingerprint of a table in memory.

    Args:
        columns: codes [rows] by attribute, of any integer type. The order of the columns does not
            matter. Weights are a column under the empty name.
        key: a secret, at least 16 bytes.

    Returns:
        HMAC-SHA256, 64 hexadecimal digits.

    Raises:
        TypeError: `columns` is not a mapping, a name is not a string, or a column is not of integers.
        ValueError: a column is not one-dimensional.

    Example:
        >>> first = of_columns({"age": [0, 2], "sex": [1, 0]}, b"sixteen secret bytes")
        >>> first == of_columns({"sex": [1, 0], "age": [0, 2]}, b"sixteen secret bytes")
        True
    """
    keyed = _start(key, b"columns")
    checks.kind(columns, Mapping, "columns must be a mapping from name to codes")
    for name in columns:
        checks.kind(name, str, "The name of a column must be a string")
    for name in sorted(columns):
        # sorted, so that the order in which columns were given does not count
        array = _array(name, columns[name])
        if array.dtype.kind not in "iu":
            raise TypeError(f"Column {name!r} must hold integer codes, got {array.dtype}.")
        if array.ndim != 1:
            raise ValueError(f"Column {name!r} must be one-dimensional, got shape {array.shape}.")
        # lengths stand before names and columns, so that no two tables give the same bytes
        _text(keyed, name.encode())
        _size(keyed, len(array))
        for start in range(0, len(array), _CHUNK):
            # one width and byte order, so that a narrower type or another machine gives the same fingerprint
            keyed.update(array[start : start + _CHUNK].astype("<i8").tobytes())
    return keyed.hexdigest()


def content(columns: Mapping[str, Iterable[bytes]]) -> bytes:
    """Return the SHA-256 of columns, each in pieces of bytes. Private: who knows it can test a guess.

    Args:
        columns: the bytes of the values by column name; the order of the names does not count.
    """
    plain = hashlib.sha256()
    for name in sorted(columns):
        for piece in (name.encode(errors="surrogatepass"), *columns[name]):
            plain.update(len(piece).to_bytes(8, "little"))
            plain.update(piece)
    return plain.digest()


def of_content(digest: bytes, key: bytes) -> str:
    """Return the fingerprint of a table with this `content`.

    Args:
        digest: from `content`.
        key: a secret, at least 16 bytes.
    """
    keyed = _start(key, b"content")
    keyed.update(digest)
    return keyed.hexdigest()


def pieces_of(values: Any) -> Iterator[bytes]:
    """Yield the bytes of one column [rows] of numbers or Python objects, for `content`."""
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        yield from (b"integers", array.astype("<u8" if array.dtype == np.uint64 else "<i8").tobytes())
    elif array.dtype.kind == "f":
        yield from (b"numbers", array.astype("<f8").tobytes())
    else:
        texts = [f"{type(value).__name__} {value!r}".encode() for value in array.reshape(-1).tolist()]
        yield from (b"values", np.array([len(text) for text in texts], "<i8").tobytes(), b"".join(texts))


def _array(name: str, codes: Any) -> np.ndarray:
    try:
        return np.asarray(codes)
    except ValueError:  # lists of several lengths
        raise ValueError(
            f"Column {name!r} must be one-dimensional, got rows of several lengths: give one code a row."
        ) from None


def _of_files(key: bytes, kind: bytes, parts: Iterable[tuple[bytes, pathlib.Path]]) -> str:
    keyed = _start(key, kind)
    for name, part in parts:
        _text(keyed, name)
        length = 0
        with part.open("rb") as file:
            while piece := file.read(_CHUNK):
                keyed.update(piece)
                length += len(piece)
        # behind the bytes, which are counted while they are read
        _size(keyed, length)
    return keyed.hexdigest()


def _start(key: bytes, kind: bytes) -> hmac.HMAC:
    checks.kind(key, bytes, "key must be bytes")
    if len(key) < _SHORTEST:
        raise ValueError(f"key must be a secret of at least {_SHORTEST} bytes, got {len(key)}.")
    return hmac.new(key, _FORM + kind + b"\n", hashlib.sha256)


def _text(keyed: hmac.HMAC, text: bytes) -> None:
    _size(keyed, len(text))
    keyed.update(text)


def _size(keyed: hmac.HMAC, size: int) -> None:
    keyed.update(size.to_bytes(8, "little"))
