"""Public tables that packages ship, from file to draft, check and release, in every store.

    python bench/public_tables.py FILE [FILE ...] [--out FILE]

Each file goes through `pgmjax domain draft --public`, `pgmjax domain check` and `pgmjax release`. Its records
are then stored as TSV, Excel, Parquet, and handed over as frames of pandas, polars, pyarrow and DuckDB, read
by another library; every one-way marginal must be that of the file. A line says what was refused, with the
message, and which stores differ. The noise is seeded: nothing of it is a release.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile
from typing import Any

import duckdb
import harness
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from pgmjax.cli import main as command
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain

MOST_ROWS = 200_000  # of a sheet that is written here
Store = Any


def said(*words: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = command(list(words))
    return code, out.getvalue().strip()


def stores(frame: pd.DataFrame, folder: pathlib.Path) -> dict[str, Store]:
    """Write a table of text, as the file has it, to every store; return a path or a frame for each."""
    made: dict[str, Store] = {"pandas": frame}
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "t.parquet", index=False)
    made |= {"tsv": folder / "t.tsv", "parquet": folder / "t.parquet"}
    if len(frame) <= MOST_ROWS:
        frame.to_excel(folder / "t.xlsx", index=False)
        made["excel"] = folder / "t.xlsx"
    table = pa.Table.from_pandas(frame, preserve_index=False)
    made |= {"pyarrow": table, "polars": pl.from_arrow(table), "duckdb": duckdb.from_arrow(table)}
    return made


def counts(source: Store, domain: Domain) -> list[np.ndarray] | str:
    """Every one-way marginal of a table, or the refusal."""
    try:
        path = isinstance(source, pathlib.Path)
        data = Dataset.read(source, domain) if path else Dataset.from_frame(domain, source)
        return data.marginals([(name,) for name in domain])
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def differing(file: pathlib.Path, domain: Domain, folder: pathlib.Path) -> dict[str, str]:
    """The stores whose counts are not those of the file, each with what differs."""
    wanted = counts(file, domain)
    text = file.read_text(encoding="utf-8-sig")
    lines = text.split("\n", 1)[1] if text.startswith("#") else text  # a remark stands above the names
    frame = pd.read_csv(io.StringIO(lines), dtype=str, keep_default_na=False, sep=None, engine="python")
    found = {}
    for name, source in stores(frame, folder).items():
        given = counts(source, domain)
        if isinstance(wanted, str) or isinstance(given, str):
            if not (isinstance(wanted, str) and isinstance(given, str)):
                found[name] = given if isinstance(given, str) else "read, though the file is refused"
            continue
        off = [
            a for a, one, other in zip(domain, wanted, given, strict=True) if not np.array_equal(one, other)
        ]
        if off:
            found[name] = ", ".join(off)
    return found


def steps(file: pathlib.Path, folder: pathlib.Path) -> dict[str, Any]:
    """Draft, check, release, and compare the stores of one file."""
    domain, line = folder / "d.yaml", {"table": file.name, "bytes": file.stat().st_size}
    for step, words in {
        "draft": ("domain", "draft", str(file), "--public", "--out", str(domain)),
        "check": ("domain", "check", str(file), str(domain)),
        "release": (
            *("release", str(file), "--domain", str(domain), "--all-kway", "1", "--epsilon", "1"),
            *("--relation", "add-remove", "--rows-outside", "drop", "--insecure-seed", "0", "--quiet"),
            *("--out", str(folder / "out")),
        ),
    }.items():
        code, text = said(*words)
        line[step] = "done" if code == 0 else text
        if code and step != "check":
            return line
    line["stores"] = differing(file, Domain.read(domain), folder)
    return line


def main() -> None:
    """Run every file and write a line for each."""
    parser = harness.parser(__doc__)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "public-tables.jsonl")
    options = parser.parse_args()
    kept = harness.Results(options.out, ("table",))
    for file in options.files:
        with tempfile.TemporaryDirectory() as place:
            try:
                line = steps(file, pathlib.Path(place))
            except Exception as error:  # one table must not cost the others' lines
                line = {"table": file.name, "fault": f"{type(error).__name__}: {error}"}
        kept.add(line)
        parts = {key: value for key, value in line.items() if key not in ("table", "bytes", "stores")}
        refused = {key: value for key, value in parts.items() if value != "done"}
        harness.say(
            f"{file.name}: {refused or 'all done'}; stores that differ: {line.get('stores', 'not reached')}"
        )


if __name__ == "__main__":
    main()
