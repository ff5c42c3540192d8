"""Time the main job, a private release of a real table in one command, on the tables of PGMJAX_DATA.

    PGMJAX_DATA=... python bench/main_job.py [adult] [titanic] [loans] [stroke]

Adult: all two-way marginals under a million cells of junction tree. The others: fifteen three-way
marginals drawn with a fixed seed such that no clique of the junction tree passes a million cells.
Each line of output is JSON: the table, its size, the wall seconds of the whole command in a fresh
process, its peak memory, how the fit ended, the machine and versions, and the command.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

import pgmjax as pj

TABLES = ("adult", "titanic", "loans", "stroke")


def bounded_triples(domain: pj.Domain, seed: int, count: int = 15, limit: int = 1_000_000) -> list[list[str]]:
    """Draw three-way cliques while the largest clique of their junction tree stays under a limit."""
    planner = pj.Estimator(oracle="message_passing", max_bytes=2**62)
    generator = np.random.default_rng(seed)
    chosen: list[tuple[str, ...]] = []
    while len(chosen) < count:
        picked = generator.choice(len(domain), 3, replace=False)
        clique = tuple(domain.attributes[i] for i in sorted(picked))
        if clique in chosen:
            continue
        if planner.plan(domain, [*chosen, clique]).oracle.forecast.largest <= limit:
            chosen.append(clique)
    return [list(clique) for clique in chosen]


def measure(name: str, data: pathlib.Path, scratch: pathlib.Path) -> dict:
    """Run the command on one table and report it."""
    table, domain = data / name / f"{name}.csv.gz", data / name / f"{name}-domain.json"
    command = ["pgmjax", "release", str(table), "--domain", str(domain)]
    if name == "adult":
        command += ["--all-kway", "2", "--max-cells", "1000000"]
    else:
        workload = scratch / f"{name}.json"
        workload.write_text(json.dumps(bounded_triples(pj.Domain.read(domain), seed=7)))
        command += ["--workload", str(workload)]
    command += ["--epsilon", "1", "--relation", "add-remove", "--json", "--out", str(scratch / name)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        return {"table": name, "failed": done.stderr.strip(), "returncode": done.returncode}
    release = json.loads((scratch / name / "release.json").read_text())
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "table": name,
        "attributes": len(pj.Domain.read(domain)),
        "cliques": len(release["workload"]),
        "seconds": round(seconds, 1),
        "peak_mb": round(peak / 1024) if peak > before else f"<= {round(peak / 1024)}",
        "fit": release["fit"],
        "secure": release["secure"],
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": release["versions"],
        "command": " ".join(command).replace(str(data), "$PGMJAX_DATA").replace(str(scratch), "SCRATCH"),
    }


def main() -> None:
    """Measure the tables named on the command line, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=TABLES)
    names = parser.parse_args().tables
    if "PGMJAX_DATA" not in os.environ:
        parser.error("PGMJAX_DATA is not set: it names the folder of real tables")
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            if name not in TABLES:
                parser.error(f"tables are {', '.join(TABLES)}, got {name!r}")
            print(
                json.dumps(measure(name, pathlib.Path(os.environ["PGMJAX_DATA"]), pathlib.Path(scratch))),
                flush=True,
            )


if __name__ == "__main__":
    main()
