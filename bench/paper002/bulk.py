"""Fifty million rows perturbed and ten thousand statistical queries answered, with time and memory.

`python bench/paper002/bulk.py [--keep] [--rows 50000000] [--groups 1000] [--queries 10000]`. A Parquet file
of two attributes (4 x 4 categories) is made in a temporary folder; `mechanisms.RandomizedResponse.perturb`
reads it in blocks and writes the answers to another folder, with secure noise; the answers are counted by
group of consecutive rows, and each query has its own function on every group. Errors are compared with what
was said.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np

import pgmjax as pj
from pgmjax.local.statistical import GroupHistograms

SIDE = 4
BLOCK_ROWS = 1 << 20
BLOCK_QUERIES = 200


def make(path: pathlib.Path, rows: int, groups: int) -> np.ndarray:
    """Write the table, in groups of rows that differ, and return its histograms [groups, 16]."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    generator = np.random.default_rng(0)
    tilt = generator.dirichlet(np.ones(SIDE * SIDE), size=groups).cumsum(axis=1)
    counts = np.zeros((groups, SIDE * SIDE), np.int64)
    schema = pa.schema([("a", pa.uint8()), ("b", pa.uint8())])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, BLOCK_ROWS):
            where = group_of(start, min(start + BLOCK_ROWS, rows), rows, groups)
            codes = np.minimum(
                (generator.random(len(where))[:, None] > tilt[where]).sum(axis=1), SIDE * SIDE - 1
            )
            np.add.at(counts, (where, codes), 1)
            columns = [pa.array(part.astype(np.uint8)) for part in np.divmod(codes, SIDE)]
            writer.write_table(pa.table(columns, schema=schema))
    return counts


def group_of(start: int, stop: int, rows: int, groups: int) -> np.ndarray:
    """Return the group of each row: as many consecutive rows in each."""
    return np.arange(start, stop, dtype=np.int64) * groups // rows


def answered(seen: GroupHistograms, truth: np.ndarray, number: int) -> dict:
    """Answer the queries in blocks; return times and errors in units of what was said."""
    generator = np.random.default_rng(1)
    asking, errors, deviations, inside = 0.0, [], [], 0
    for start in range(0, number, BLOCK_QUERIES):
        functions = generator.random((min(BLOCK_QUERIES, number - start), *truth.shape))
        begin = time.perf_counter()
        answers = seen.answer(functions)
        asking += time.perf_counter() - begin
        error = answers.value - np.einsum("kgv,gv->k", functions, truth) / truth.sum()
        errors.append(error / answers.stddev)
        deviations.append(answers.stddev)
        inside += int(np.count_nonzero(np.abs(error) <= answers.half_width(0.95)))
    scaled = np.concatenate(errors)
    return {
        "answer_seconds": asking,
        "stddev": float(np.concatenate(deviations).mean()),
        "mean_scaled_error": float(scaled.mean()),
        "mean_scaled_square": float((scaled**2).mean()),
        "worst_scaled_error": float(np.abs(scaled).max()),
        "within_95": inside / number,
    }


def main() -> None:
    """Make the table, perturb it, answer, print, and keep if asked to."""
    parser = harness.parser(__doc__)
    parser.add_argument("--keep", action="store_true", help="add the figures to bench/results")
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=10_000)
    options = parser.parse_args()
    domain = pj.Domain({"a": SIDE, "b": SIDE})
    mechanism = pj.mechanisms.RandomizedResponse(1, pj.Relation.REPLACE_ONE, universe="joint")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        truth = make(path / "table.parquet", options.rows, options.groups)
        harness.say(f"table made, {harness.peak_mb() / 1024:.2f} GB")
        begin = time.perf_counter()
        data = pj.Dataset.read(path / "table.parquet", domain)
        table = mechanism.perturb(data, row_order_is_public=True, out=path / "perturbed")
        perturbed = time.perf_counter()
        harness.say(f"perturbed in {perturbed - begin:.1f} s, {harness.peak_mb() / 1024:.2f} GB")
        seen = pj.local.group_histograms(
            table, lambda start, stop: group_of(start, stop, options.rows, options.groups), options.groups
        )
        counted = time.perf_counter()
        harness.say(f"counted in {counted - perturbed:.1f} s")
        line = {
            "rows": options.rows,
            "groups": options.groups,
            "queries": options.queries,
            "categories": SIDE * SIDE,
            "secure": table.secure,
            "perturb_seconds": perturbed - begin,
            "count_seconds": counted - perturbed,
            **answered(seen, truth, options.queries),
        }
    line["seconds"] = line["perturb_seconds"] + line["count_seconds"] + line["answer_seconds"]
    line["peak_gb"] = harness.peak_mb() / 1024
    if options.keep:
        harness.keep("paper002-bulk", line)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
