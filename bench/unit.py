"""Ten million records of three million people: bounded to a few each, and all pairs of columns counted.

    python bench/unit.py [RECORDS] [MAX_RECORDS]

Makes a Parquet file of 8 columns and a column of texts that names people, and counts all pairs of the 8 as
a release does: the records beyond the bound are left out, the rest is copied, and the copy is counted. Prints
and keeps the seconds of the parts and the largest memory of the process.
"""

import itertools
import json
import pathlib
import resource
import sys
import tempfile
import time

import duckdb
import harness

import pgmjax as pj

SIZES = (2, 5, 10, 20, 8, 16, 4, 50)


def make(path, records):
    """Write the table; there are three tenths as many people as records."""
    columns = ", ".join(
        f"CAST(hash(i * 31 + {k}) % {size} AS INTEGER) AS a{k}" for k, size in enumerate(SIZES)
    )
    people = f"'p' || CAST(hash(i * 7919) % {max(1, records * 3 // 10)} AS VARCHAR) AS person_id"
    query = f"SELECT {people}, {columns} FROM range({records}) made(i)"
    duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


def main(records, most):
    """Make, bound, copy and count; print and keep a line."""
    load = harness.load_average()
    domain = pj.Domain({f"a{k}": size for k, size in enumerate(SIZES)})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "visits.parquet"
        make(path, records)
        began = time.perf_counter()
        data = pj.Dataset.read(path, domain, unit=pj.Unit("person_id", most)).snapshot()
        copied = time.perf_counter() - began
        tables = data.marginals(itertools.combinations(domain, 2))
        counted = time.perf_counter() - began - copied
    assert {int(table.sum()) for table in tables} == {data.count()}
    line = {
        "bench": "unit",
        "records": records,
        "max_records": most,
        "kept": data.count(),
        "seconds": {"bounded and copied": round(copied, 2), "pairs counted": round(counted, 2)},
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "load_before": load,
        **harness.provenance(),
        "command": " ".join(["python", *sys.argv]),
    }
    harness.append(harness.RESULTS / "unit.jsonl", line)
    print(json.dumps(line))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(10_000_000, 4)[len(given) :])
