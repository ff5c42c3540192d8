"""All two-way marginals of a large Parquet file: seconds and peak memory of one scan.

    python bench/marginals_scan.py [ROWS] [--kind codes|mixed] [--keep FOLDER] [--seed N]

Writes a seeded table of ROWS x 10 (50 million unless told) to a temporary folder, counts its 45
two-way marginals in a process that does nothing else, checks five of them against a plain NumPy
count of the regenerated columns, and prints one line of JSON. Kind `codes` holds integer codes
(int32); in `mixed` three of the columns are text labels and two are floats to be binned, some of
them missing.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import harness

ROWS = 50_000_000
CHUNK = 1_000_000
SIZES = (2, 5, 7, 9, 16, 20, 42, 64, 85, 100)
TEXT, BINNED = (2, 4, 6), (7, 9)
CHECKED = ((0, 1), (2, 4), (6, 9), (7, 8), (9, 3))


def name_of(column):
    """Name a column by its number."""
    return f"a{column}"


def make_domain(kind):
    """Return the domain of the table; the last code of a binned column is the missing one."""
    from pgmjax.data.domain import Domain

    spec = {name_of(column): size for column, size in enumerate(SIZES)}
    if kind == "mixed":
        for column in TEXT:
            spec[name_of(column)] = {"labels": [f"value {k}" for k in range(SIZES[column])]}
        for column in BINNED:
            spec[name_of(column)] = {"bins": list(range(SIZES[column])), "missing": True}
    return Domain(spec)


def make_codes(chunk, rows, seed):
    """Return the codes [10][rows] of one chunk: skewed, so that cells differ in size."""
    import numpy as np

    rng = np.random.default_rng([seed, chunk])
    uniform = rng.random((len(SIZES), rows), dtype=np.float32)
    scaled = uniform**2 * np.array(SIZES, dtype=np.float32)[:, None]
    return np.minimum(scaled.astype(np.int32), np.array(SIZES, dtype=np.int32)[:, None] - 1)


def chunks(rows):
    """Yield the number and the rows of every chunk."""
    for chunk in range(-(-rows // CHUNK)):
        yield chunk, min(CHUNK, rows - chunk * CHUNK)


def write(path, rows, kind, seed):
    """Write the table."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, part = None, path.with_suffix(".part")
    for chunk, here in chunks(rows):
        columns = {}
        for column, codes in enumerate(make_codes(chunk, here, seed)):
            array = pa.array(codes)
            if kind == "mixed" and column in TEXT:
                array = pa.array([f"value {k}" for k in range(SIZES[column])]).take(array)
            if kind == "mixed" and column in BINNED:
                array = pa.array(codes + np.float64(0.5), mask=codes == SIZES[column] - 1)
            columns[name_of(column)] = array
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(part, table.schema)
        writer.write_table(table)
    writer.close()
    part.rename(path)


def scan(path, kind, out):
    """Count all two-way marginals of the file; print seconds and peak memory."""
    import numpy as np

    from pgmjax.data.dataset import Dataset

    domain = make_domain(kind)
    pairs = list(itertools.combinations(domain, 2))
    start = time.perf_counter()
    tables = Dataset.read(path, domain).marginals(pairs)
    seconds = time.perf_counter() - start
    processor = time.process_time()
    np.savez(out, **{"-".join(pair): table for pair, table in zip(pairs, tables, strict=True)})
    figures = {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(processor, 2),
        "peak_mb": round(harness.peak_mb()),
    }
    print(json.dumps(figures))


def differing(out, rows, seed):
    """Return which of the checked marginals differ from a plain count of the regenerated columns."""
    import numpy as np

    expected = {pair: np.zeros(SIZES[pair[0]] * SIZES[pair[1]], dtype=np.int64) for pair in CHECKED}
    for chunk, here in chunks(rows):
        codes = make_codes(chunk, here, seed)
        for first, second in CHECKED:
            cells = codes[first].astype(np.int64) * SIZES[second] + codes[second]
            expected[first, second] += np.bincount(cells, minlength=SIZES[first] * SIZES[second])
    counted = np.load(out)
    wrong = []
    for (first, second), table in expected.items():
        low, high = sorted((first, second))
        found = counted[f"{name_of(low)}-{name_of(high)}"]
        if not np.array_equal(found if first == low else found.T, table.reshape(SIZES[first], SIZES[second])):
            wrong.append((name_of(first), name_of(second)))
    return wrong


def main():
    """Write, scan, check, and print one line."""
    parser = harness.parser(__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--kind", choices=("codes", "mixed"), default="codes")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="write the table there, or use the one that is there"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", choices=("write", "scan"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgmjax-bench-") as temporary:
        folder = pathlib.Path(arguments.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{arguments.kind}-{arguments.rows}-{arguments.seed}.parquet"
        out = path.with_suffix(".npz")
        if arguments.step == "write":
            return write(path, arguments.rows, arguments.kind, arguments.seed)
        if arguments.step == "scan":
            return scan(path, arguments.kind, out)
        # each step in a process of its own: a peak of memory is told for the scan alone
        command = [sys.executable, __file__, *sys.argv[1:], "--keep", str(folder), "--step"]
        if not path.exists():
            subprocess.run([*command, "write"], check=True)
        scanned = subprocess.run([*command, "scan"], check=True, capture_output=True, text=True)
        figures = {
            "bench": "marginals_scan",
            "rows": arguments.rows,
            "columns": len(SIZES),
            "kind": arguments.kind,
            "marginals": len(SIZES) * (len(SIZES) - 1) // 2,
            "file_mb": round(path.stat().st_size / 2**20),
            **json.loads(scanned.stdout),
            "differing": differing(out, arguments.rows, arguments.seed),
            "checked": len(CHECKED),
            "seed": arguments.seed,
            **harness.provenance(),
            "versions": harness.versions(names=("numpy", "duckdb", "pyarrow")),
        }
        out.unlink()
    print(json.dumps(figures))
    return 1 if figures["differing"] else 0


if __name__ == "__main__":
    sys.exit(main())
