"""One private copy of a table at the start of a run, against reading its file for every answer.

    python bench/snapshot.py [TRIALS]

AIM on Adult (pairs) from a compressed CSV file, in turn: with the copy in memory, and without (the file is
read again for each answer, and must not change). Prints the seconds of both, their ratio, and the time of a
digest of the file.
"""

import json
import os
import pathlib
import statistics
import sys
import time

import harness

import pgmjax as pj
from pgmjax.data import dataset


def seconds(path, domain, workload, room):
    """The time of one run, with so much memory for the copy."""
    kept, dataset.available_bytes = dataset.available_bytes, room
    try:
        began = time.perf_counter()
        mechanism = pj.mechanisms.AIM(
            epsilon=1,
            delta="1e-9",
            relation=pj.Relation.ADD_REMOVE,
            estimator=pj.Estimator(max_steps=50, progress=False),
            backend=pj.privacy.SeededBackend(1, insecure=True),
        )
        mechanism.run(pj.Dataset.read(path, domain), workload, show_progress=False)
        return time.perf_counter() - began
    finally:
        dataset.available_bytes = kept


def main(trials):
    """Run both in turn, print and keep a line."""
    load = harness.load_average()
    folder = pathlib.Path(os.environ["PGMJAX_DATA"]) / "adult"
    path, domain = folder / "adult.csv.gz", pj.Domain.read(folder / "adult-domain.json")
    workload = pj.Workload.all_kway(domain, 2, 100_000)
    began = time.perf_counter()
    pj.Dataset.read(path, domain).identity(b"a key of sixteen bytes")
    digest = time.perf_counter() - began
    rooms = {"copy": dataset.available_bytes, "read again": lambda: 0}
    found = {name: [] for name in rooms}
    for _ in range(trials):
        for name, room in rooms.items():
            found[name].append(seconds(path, domain, workload, room))
    middle = {name: statistics.median(times) for name, times in found.items()}
    line = {
        "bench": "snapshot",
        "bytes": path.stat().st_size,
        "digest_s": round(digest, 5),
        "seconds": {name: [round(one, 3) for one in times] for name, times in found.items()},
        "ratio": round(middle["copy"] / middle["read again"], 3),
        "load_before": load,
        **harness.provenance(),
        "command": " ".join(["python", *sys.argv]),
    }
    harness.append(harness.RESULTS / "snapshot.jsonl", line)
    print(json.dumps(line))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
