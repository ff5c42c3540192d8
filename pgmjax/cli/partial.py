"""The folder DIR.partial, in which the noisy answers of `pgmjax release` are kept until DIR is complete.

Beside what `privacy.RunFolder` keeps, it has the arguments, the domain and the workload, so that `--resume`
needs nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
from typing import Any

from pgmjax._internal import files
from pgmjax.cli import spending
from pgmjax.data.domain import Domain
from pgmjax.privacy.run_folder import stored_answers
from pgmjax.queries.workload import Workload

RESUMABLE = ("rows", "synthetic", "steps", "solver", "dtype", "json", "quiet")
"""The options that may be given with --resume; the others are those that the run began with."""

_ARGUMENTS, _DOMAIN, _WORKLOAD = "arguments.json", "domain.json", "workload.json"
_FORMAT, _VERSION = "pgmjax-partial-release", 1
_PATHS = ("table", "ledger", "holder_log")
_LONGEST = 255 - len(".partial")  # bytes of a name, of those that file systems allow


def path_of(out: pathlib.Path) -> pathlib.Path:
    """Return the place of the partial folder, beside the release."""
    name = out.name
    while len(os.fsencode(name)) > _LONGEST:
        name = name[:-1]
    return out.with_name(f"{name}.partial")


def make(
    out: pathlib.Path, arguments: argparse.Namespace, domain: Domain, workload: Workload
) -> pathlib.Path:
    """Make the partial folder of a release.

    Raises:
        ValueError: there is one with noisy answers, or in use, or something else in its place.
    """
    path = path_of(out)
    if os.path.lexists(path):
        _make_room(path)
    words = {name: value for name, value in vars(arguments).items() if _is_plain(value)}
    for name in _PATHS:
        if words.get(name) is not None:
            words[name] = os.path.abspath(words[name])
    record = {"format": _FORMAT, "format_version": _VERSION, "out": out.name, "arguments": words}
    path.mkdir()
    try:
        domain.write(path / _DOMAIN)
        workload.write(path / _WORKLOAD)
        with files.replacing(path / _ARGUMENTS) as partial:
            partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except BaseException:
        remove(path)
        raise
    return path


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | list)


def _make_room(path: pathlib.Path) -> None:
    """Remove a partial folder that a killed run left and that nothing was paid for."""
    try:
        handle = files.lock(path)
    except BlockingIOError:
        raise ValueError(f"Another process works in {path}: name another --out.") from None
    except OSError:
        raise ValueError(f"{path} exists and is not a folder: move it, or name another --out.") from None
    try:
        if has_answers(path):
            raise ValueError(
                f"{path} holds the noisy answers of a release that did not end. Go on from them at no cost "
                f"with {command(path)}, or remove that folder, which loses what was paid for them. "
                "Nothing was spent."
            )
        if not (path / _ARGUMENTS).is_file() and set(os.listdir(path)) - {_DOMAIN, _WORKLOAD}:
            raise ValueError(f"{path} is not of pgmjax: move it, or name another --out. Nothing was spent.")
        remove(path)
    finally:
        files.unlock(handle)


def read(
    path: pathlib.Path, arguments: argparse.Namespace
) -> tuple[argparse.Namespace, pathlib.Path, Domain, Workload]:
    """Read a partial folder.

    Args:
        path: the folder.
        arguments: those of the command with --resume; options that are given replace the stored ones.

    Returns:
        The arguments of the run, the folder to be made, the domain and the workload.

    Raises:
        ValueError: there is no such folder, it is complete or damaged.
    """
    if not path.is_dir():
        raise ValueError(f"There is no folder {path}: expected a .partial folder of `pgmjax release`.")
    if (path / "release.json").is_file():
        raise ValueError(
            f"{path} is a complete release: there is nothing to resume. Its model draws more rows: "
            "pgmjax.load(...).sample_to(...)."
        )
    if not (path / _ARGUMENTS).is_file():
        raise ValueError(f"{path} is not a .partial folder of `pgmjax release`: it has no {_ARGUMENTS}.")
    record = files.read(path / _ARGUMENTS, "a partial release of pgmjax", _FORMAT, _VERSION)
    given = {name: getattr(arguments, name) for name in RESUMABLE}
    merged = {**vars(arguments), **record["arguments"], "resume": arguments.resume}
    merged |= {name: value for name, value in given.items() if value is not None and value is not False}
    merged |= {"json": arguments.json, "quiet": arguments.quiet}
    out = path.absolute().with_name(record["out"])
    merged["out"] = str(out)
    if os.path.lexists(out):
        raise ValueError(
            f"{out} exists already. If it is the release of {path}, that folder can be removed; otherwise "
            "move it, and resume again."
        )
    return argparse.Namespace(**merged), out, Domain.read(path / _DOMAIN), Workload.read(path / _WORKLOAD)


def has_answers(path: pathlib.Path) -> bool:
    """Return whether noisy answers are kept, which are paid for."""
    return stored_answers(path) > 0


def settle(path: pathlib.Path, out: pathlib.Path, mechanism: Any, error: BaseException | None) -> None:
    """Leave the partial folder as it should be at the end of a run.

    It is removed once the release is there, or where nothing was paid; otherwise it says what was spent.

    Args:
        path: the partial folder.
        out: the release.
        mechanism: the mechanism with its privacy parameters.
        error: what ended the run; None where it ended well.
    """
    with files.undisturbed(), contextlib.suppress(OSError):
        handle = files.lock(path)  # another process may have gone on with it meanwhile
        try:
            if error is None or (out / "release.json").is_file() or not has_answers(path):
                remove(path)
            else:
                spending.record(path, mechanism, error)
        finally:
            files.unlock(handle)


def remove(path: pathlib.Path) -> None:
    """Remove a partial folder. Its arguments go first, so that none with a part of its answers is resumed."""
    with files.undisturbed():
        (path / _ARGUMENTS).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


def command(path: pathlib.Path) -> str:
    """Return the command that goes on from a partial folder."""
    return f"pgmjax release --resume {shlex.quote(str(path))}"


def promise(path: pathlib.Path) -> str:
    """Return where the answers are and how to go on, as the end of a message."""
    return f"the noisy answers are in {path}: {command(path)} goes on from them at no cost"
