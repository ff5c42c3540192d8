"""Bounding the records of units in a large file, and all pairs of its columns counted: time and memory.

    python bench/unit.py [ROWS] [UNITS] [MOST]

Makes a Parquet file of ROWS records (10 million) of UNITS people (3 million) with 8 columns of 10 codes, in a
temporary folder; at most MOST (4) records of each count. Prints and keeps a line: seconds of counting all
pairs with and without the unit, peak memory, and how many records count.
"""

import itertools
import json
import pathlib
import resource
import sys
import tempfile
import time

import harness
import numpy as np
import pyarrow
import pyarrow.parquet

import pgmjax as pj

COLUMNS, CODES = 8, 10
_PART = 1 << 20


def make(path, rows, units):
    """Write the table, part by part."""
    generator = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, _PART):
        size = min(_PART, rows - start)
        columns = {
            f"c{number}": generator.integers(0, CODES, size).astype(np.int8) for number in range(COLUMNS)
        }
        part = pyarrow.table({**columns, "person": generator.integers(0, units, size)})
        writer = writer or pyarrow.parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    writer.close()


def seconds(path, unit):
    """Return the time of counting all pairs, and the number of records that count."""
    domain = pj.Domain({f"c{number}": CODES for number in range(COLUMNS)})
    began = time.perf_counter()
    counts = pj.Dataset.read(path, domain, unit=unit).marginals(itertools.combinations(domain, 2))
    return round(time.perf_counter() - began, 2), int(counts[0].sum())


def main(rows, units, most):
    """Count, print and keep a line."""
    load = harness.load_average()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "people.parquet"
        make(path, rows, units)
        plain, _ = seconds(path, None)
        bounded, kept = seconds(path, pj.Unit("person", most))
    line = {
        "bench": "unit",
        "rows": rows,
        "units": units,
        "max_records": most,
        "kept": kept,
        "plain_s": plain,
        "bounded_s": bounded,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "load_before": load,
        **harness.provenance(),
        "command": " ".join(["python", *sys.argv]),
    }
    harness.append(harness.RESULTS / "unit.jsonl", line)
    print(json.dumps(line))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [10_000_000, 3_000_000, 4][len(given) :]))
