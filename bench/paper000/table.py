"""The experiments' table: 500,000 rows drawn from the engine's model of Adult on the paper's nine sizes.

    PGMJAX_DATA=... python bench/paper000/table.py [--rows 500000] [--seed 0]

The paper's own extract of IPUMS is not public. Adult's 48,842 rows are recoded to its nine attributes, a
model is fitted to the marginals of `CLIQUES`, rows are drawn from it. Adult is public: this is no release.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import tempfile

import numpy as np

import pgmjax as pj

SIZES = {
    "age": 79,
    "gender": 2,
    "education": 17,
    "birthplace": 51,
    "race": 9,
    "work-class": 7,
    "marital": 6,
    "occupation": 50,
    "salary": 50,
}
ROWS = 500_000
CLIQUES = [
    ("age", "education", "marital"),
    ("age", "marital", "salary"),
    ("education", "occupation", "salary"),
    ("gender", "work-class", "occupation"),
    ("gender", "marital", "salary"),
    ("education", "birthplace", "race"),
    ("race", "marital"),
]


def domain() -> pj.Domain:
    """The paper's nine attributes: 1.3e11 cells, 29,570 cells in all pairs."""
    return pj.Domain(SIZES)


def recoded() -> pj.Dataset:
    """Adult's rows in the codes of the nine attributes.

    Age begins at 16 and ends at 94; the two rarest work classes join the unknown one, `Married-AF-spouse`
    joins `Married-civ-spouse`; occupation is split by hours a week (part time, full time, more); salary has
    twenty-five bands of hours below 50 thousand a year and twenty-five above. Codes that Adult does not have
    stay empty there, and rare in the model.
    """
    folder = pathlib.Path(os.environ.get("PGMJAX_DATA", "")) / "adult"
    if not folder.is_dir():
        raise SystemExit("PGMJAX_DATA does not name a folder that holds adult/, the table that is recoded.")
    rows = np.genfromtxt(folder / "adult.csv.gz", delimiter=",", names=True, dtype=np.int64, deletechars="")
    hours = rows["hours-per-week"]
    columns = {
        "age": np.minimum(rows["age"], SIZES["age"] - 1),
        "gender": rows["sex"],
        "education": rows["education-num"],
        "birthplace": rows["native-country"],
        "race": rows["race"],
        "work-class": np.minimum(rows["workclass"], 6),
        "marital": np.where(rows["marital-status"] == 6, 0, rows["marital-status"]),
        "occupation": 3 * rows["occupation"] + (hours >= 34).astype(np.int64) + (hours >= 44),
        "salary": 25 * rows["income>50K"] + hours // 4,
    }
    return pj.Dataset.from_columns(domain(), columns)


def model() -> pj.GraphicalModel:
    """The engine's model of the recoded table: its marginals on `CLIQUES`, by entropy alone beyond them."""
    data = recoded()
    measured = [
        pj.LinearMeasurement(clique, counts, stddev=10.0)
        for clique, counts in zip(CLIQUES, data.marginals(CLIQUES), strict=True)
    ]
    return pj.Estimator(max_steps=500).fit(domain(), measured, total=data.count()).model


def table(rows: int = ROWS, seed: int = 0, folder: pathlib.Path | None = None) -> dict[str, np.ndarray]:
    """Codes [rows] of every attribute, drawn once and then kept in a file.

    Args:
        rows: how many.
        seed: of the draw.
        folder: where the file is kept; `pgmjax-bench` in the system's folder of temporary files by default.
    """
    folder = pathlib.Path(tempfile.gettempdir()) / "pgmjax-bench" if folder is None else folder
    file = folder / f"paper000-{rows}-{seed}.npz"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        drawn = {name: column.astype(np.uint8) for name, column in model().sample(rows, seed).items()}
        part = file.with_suffix(f".{os.getpid()}.npz")
        np.savez_compressed(part, **drawn)
        part.replace(file)
    with np.load(file) as kept:
        return {name: kept[name].astype(np.int64) for name in SIZES}


def dataset(rows: int = ROWS, seed: int = 0) -> pj.Dataset:
    """The table as a dataset."""
    return pj.Dataset.from_columns(domain(), table(rows, seed))


def pair_counts(columns: dict[str, np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """Exact counts of all pairs of attributes, in the order of `SIZES`."""
    names = list(SIZES)
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    data = pj.Dataset.from_columns(domain(), columns)
    return dict(zip(pairs, data.marginals(pairs), strict=True))


def main() -> None:
    """Draw the table and print what its attributes look like."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    columns = table(chosen.rows, chosen.seed)
    for name, size in SIZES.items():
        shares = np.bincount(columns[name], minlength=size) / chosen.rows
        print(
            f"{name:12s} {size:3d} codes, {int((shares > 0).sum()):3d} seen, largest share {shares.max():.3f}"
        )


if __name__ == "__main__":
    main()
