"""Measurements of devices that are kept between processes, in files of the user's cache folder."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pgmjax._internal.formats import Format

_LOG = logging.getLogger("pgmjax")


@dataclasses.dataclass(frozen=True)
class KeptFile:
    """A file of values by name for each device.

    Attributes:
        name: of the file, without its ending; a command `pgmjax bench NAME` writes it.
        right: whether a value can be one of this file.
        instead: what happens without the file, for the log.
    """

    name: str
    right: Callable[[Any], bool]
    instead: str

    @property
    def path(self) -> pathlib.Path:
        """The file: `pgmjax/NAME.json` in `$XDG_CACHE_HOME` or `~/.cache`."""
        folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return pathlib.Path(folder, "pgmjax", f"{self.name}.json")

    def keep(self, device: str, values: Mapping[str, Any]) -> pathlib.Path:
        """Keep the values of a device; what is kept of other devices stays.

        Returns:
            The file.

        Raises:
            OSError: the file cannot be written.
        """
        file = self.path
        record = {**self._format.heading(), "devices": {**self.read(), device: dict(values)}}
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.{uuid.uuid4().hex[:12]}")
        try:
            part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
        return file

    def read(self) -> dict[str, dict[str, Any]]:
        """Return what is kept by device; nothing, and a line in the log, if the file is damaged."""
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            return self._ignored(str(error))
        try:
            self._format.check(record, "the file")
        except ValueError as error:
            return self._ignored(str(error).removesuffix("."))
        devices = record.get("devices")
        if isinstance(devices, dict) and all(
            isinstance(kept, dict) and all(map(self.right, kept.values())) for kept in devices.values()
        ):
            return devices
        return self._ignored("its values are not of their kind")

    @property
    def _format(self) -> Format:
        return Format(self.name, f"measurements of {self.name}")

    def _ignored(self, why: str) -> dict[str, dict[str, Any]]:
        _LOG.warning(
            "Kept measurements of %s are ignored, and %s: %s: %s. `pgmjax bench %s` writes the file again.",
            self.name,
            self.instead,
            self.path,
            why,
            self.name,
        )
        return {}
