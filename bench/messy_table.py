"""A messy table from its file to published rows: the commands of a new user and all that they print.

    python bench/messy_table.py [--out FILE]

The table is the messy one of `raw_tables.py` (cp1252, semicolons, decimal commas, missing values, 900 codes,
most of them rare, several rows of one person), with some of its dates written in another form. The commands
run in a temporary folder. The noise is secure, so the estimates differ from run to run; the rest does not.
"""

from __future__ import annotations

import argparse
import pathlib
import re

import checkout  # noqa: F401
import harness
from mistakes import run_command, working_folder
from raw_tables import messy

OUT = harness.RESULTS / "messy_table.md"
TEXT = "--encoding cp1252"
UNIT = "--unit Nummer --max-records 4"
FIRST = """\
Größe: {min: 120, max: 220, step: 10}
Betrag: {bins: [0, 500, 1000, 2000, 5000, 20000]}
Datum: {from: "2019-01-01", to: "2023-12-31", step: quarter}
Code: {labels: [K001, K002, K003, K004, K005]}
Stadt: {labels: [Köln, München, Bonn]}
"""
SECOND = """\
Größe: {bins: [120, 150, 160, 170, 180, 190, 220], decimal: ",", clip: true}
Betrag: {bins: [0, 500, 1000, 2000, 5000, 20000], decimal: ",", thousands: ".", missing: true}
Datum: {from: "2019-01-01", to: "2023-12-31", step: quarter, format: "%d.%m.%Y", missing: true}
Code: {labels: [K001, K002, K003, K004, K005], other: true}
Stadt: {labels: [Köln, München, Bonn], missing: ["?"]}
"""
MEASURE = (
    f"--domain messy.yaml {TEXT} {UNIT} --rows-outside missing --all-kway 2 --epsilon 1 --relation add-remove"
)
STEPS: list[tuple[str, str, int]] = [
    (
        "Begin a domain file. The column Nummer says whom to protect, and is left out.",
        f"pgmjax domain draft messy.csv {TEXT} --unit Nummer --out draft.yaml",
        0,
    ),
    (
        "Complete it from what is public, as `first.yaml`, and check the table.",
        f"pgmjax domain check messy.csv first.yaml {TEXT}",
        1,
    ),
    (
        "Follow the advice, as `messy.yaml`, and check again. Dates in a second form remain.",
        f"pgmjax domain check messy.csv messy.yaml {TEXT}",
        1,
    ),
    (
        "See what a release would measure; the dates in a second form count as missing.",
        f"pgmjax release messy.csv {MEASURE} --dry-run",
        0,
    ),
    (
        "Release. At most four rows of a person count, so that some of the 20,000 are left out.",
        f"pgmjax release messy.csv {MEASURE} --out messy-release",
        0,
    ),
    ("Ask the release.", "pgmjax query messy-release 'Stadt=Bonn,Größe<170' 'Code=K001'", 0),
    ("Ask for a table of counts.", "pgmjax query messy-release --marginal Stadt,Code", 0),
    ("Draw more rows.", "pgmjax release messy-release --add-rows 1000", 0),
]


def write_table(path: pathlib.Path) -> None:
    """Write the messy table, in which the date of every 40th row is an ISO date."""
    messy(path)
    lines = path.read_text(encoding="cp1252").splitlines()
    for row in range(40, len(lines), 40):
        lines[row] = re.sub(r"(\d\d)\.(\d\d)\.(\d{4});K", r"\3-\2-\1;K", lines[row])
    path.write_text("\n".join(lines) + "\n", encoding="cp1252")


def page() -> str:
    """Run the commands in the working folder and return the results file."""
    table = pathlib.Path("messy.csv")
    write_table(table)
    rows = table.read_text(encoding="cp1252").splitlines()
    pathlib.Path("first.yaml").write_text(FIRST, encoding="utf-8")
    pathlib.Path("messy.yaml").write_text(SECOND, encoding="utf-8")
    here = f"{pathlib.Path().resolve()}/"
    lines = [
        "# A messy table, from file to published rows",
        "",
        "Written by `python bench/messy_table.py`. Every command is run for real, and its output is shown "
        "whole. The noise is secure: the estimates differ from run to run.",
        "",
        f"The table has {len(rows) - 1:,} rows. It is made up, so these may be shown:",
        "",
        *("```text", *rows[:4], rows[40], "```"),
    ]
    for number, (title, command, wanted) in enumerate(STEPS, 1):
        if title.endswith("check the table."):
            lines += ["", "`draft.yaml`, and then `first.yaml`:"]
            lines += ["", "```yaml", pathlib.Path("draft.yaml").read_text(encoding="utf-8").strip(), "```"]
            lines += ["", "```yaml", FIRST.strip(), "```"]
        if title.startswith("Follow"):
            lines += ["", "`messy.yaml`:", "", "```yaml", SECOND.strip(), "```"]
        printed, _, status = run_command(command)
        if status != wanted:
            raise RuntimeError(f"{command} ended with {status}, expected {wanted}: {printed}")
        lines += ["", f"## {number}. {title}", "", "```bash", command, "```", ""]
        lines += [f"Exit status {status}:", "", "```text", printed.replace(here, "").strip("\n"), "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the commands and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    out = parser.parse_args().out.absolute()
    with working_folder():
        text = page()
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
