"""The formats of files and folders: the name and the version that each of them carries.

A file that this library reads again says `format` and `format_version` (a ledger says them in SQLite's own
fields). What does not say exactly this is refused by name: another program's file, one of an unpublished
version, one of a newer version, and one whose version is no version.
"""

from __future__ import annotations

import dataclasses
from typing import Any

_UNPUBLISHED = ("pgmjax-", "pgmjax.", "pgmjax ")
"""How the names began that were written before the formats started at version 1 under the names of today."""


@dataclasses.dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        topic: what is kept in it, in one word.
        what: the same for messages, such as "a model of pgmjax".
        version: the only version that is written and read.
    """

    topic: str
    what: str
    version: int = 1

    @property
    def name(self) -> str:
        """The name that a file carries."""
        return f"pgmjax:{self.topic}"

    def heading(self) -> dict[str, Any]:
        """Return the fields of a record that name its format and version."""
        return {"format": self.name, "format_version": self.version}

    def check(self, record: Any, path: Any) -> None:
        """Refuse a record that is not of this format and version.

        Args:
            record: content of the file, anything JSON can hold.
            path: of the file, for messages.

        Raises:
            ValueError: the record is of another format or version.
        """
        fields = record if isinstance(record, dict) else {}
        name, version = fields.get("format"), fields.get("format_version")
        if isinstance(name, str) and name.startswith(_UNPUBLISHED):
            raise ValueError(unpublished(path))
        other = next((each.what for each in ALL if each.name == name != self.name), None)
        if other is not None:
            raise ValueError(f"{path} is of {other}, and not of {self.what}: give the path of one.")
        if name != self.name:
            raise ValueError(
                f"{path} was not written by pgmjax or is not {self.what}: its format is not {self.name!r}."
            )
        if type(version) is not int or version < 1:
            raise ValueError(
                f"{path} is damaged: its format version is {version!r:.60}, and expected was {self.version}. "
                "Make or copy it again."
            )
        if version != self.version:
            raise ValueError(
                f"{path} has format version {version} of {self.what}, and this pgmjax knows version "
                f"{self.version}: use the pgmjax that wrote it."
            )


def unpublished(path: Any) -> str:
    """Return the refusal of a file that a version before the first publication wrote."""
    return (
        f"{path} was written by an unpublished version of pgmjax, whose files are not read any more: make it "
        "again with this version."
    )


RELEASE = Format("release", "a release of pgmjax")
ASSURANCE = Format("assurance", "what a release answers to its evaluator")
FIT = Format("fit", "a fit of pgmjax")
RUN = Format("run", "a run of pgmjax")
TRANSCRIPT = Format("transcript", "a transcript of pgmjax")
PERTURBED = Format("perturbed", "a perturbed table of pgmjax")
RESPONSE = Format("response", "a response to pgmjax respond")
TABLE = Format("perturbed-table", "the table of a perturbed release")
MODEL = Format("model", "a model of pgmjax")
MIXTURE = Format("mixture", "a mixture of pgmjax")
REGIONS = Format("regions", "a model of regions")
HISTORY = Format("history", "a history of pgmjax")
PREDICTOR = Format("predictor", "a predictor of pgmjax")
SESSION = Format("session", "a session of pgmjax")
LEDGER = Format("ledger", "a ledger of pgmjax")
SWEEP = Format("sweep", "results of a sweep")
ALL = (
    RELEASE,
    ASSURANCE,
    FIT,
    RUN,
    TRANSCRIPT,
    PERTURBED,
    RESPONSE,
    TABLE,
    MODEL,
    MIXTURE,
    REGIONS,
    HISTORY,
    PREDICTOR,
    SESSION,
    LEDGER,
    SWEEP,
)
