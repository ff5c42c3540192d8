"""Write every measured table and number of the pages from the kept lines, or check that they agree.

    python bench/tables.py             # writes README.md, docs/ and bench/
    python bench/tables.py --check     # changes nothing; says the first difference and exits with 1
    python bench/tables.py --print figure-1   # one block

A page has `<!-- lines: NAME -->...<!-- /lines -->` where a table or a number of `BLOCKS` belongs; nobody sees
the markers in the rendered page. A marker that no block fills is an error, and so is a block without its
marker. Lines of a commit with changes that were not committed are refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence

import harness
from blocks import paper000, paper001, paper002, paper003, paper004, papers, performance, releases
from harness import ROOT, Line

MARKED = re.compile(r"(<!-- lines: ([a-z0-9-]+) -->)(.*?)(<!-- /lines -->)", re.DOTALL)
# Markdown takes a line that begins with a comment for HTML, and shows it as it is
LEADING = re.compile(r"^ *<!-- lines: [a-z0-9-]+ -->.+$", re.MULTILINE)
LONELY = re.compile(r"<!-- (?:lines: [^>]*|/lines) -->")


@dataclasses.dataclass(frozen=True)
class Block:
    """One table, or some numbers, of a page.

    Attributes:
        page: path from the root.
        name: of its marker; of each of several texts `NAME-KEY`, of which the page has those it needs.
        make: from the lines of the files to the text, or to several by key.
        results: names of files in bench/results.
    """

    page: str
    name: str
    make: Callable[..., str | dict[str, str]]
    results: tuple[str, ...]

    def texts(self) -> dict[str, str]:
        """What belongs between the markers, by their names."""
        made = self.make(*map(clean, self.results))
        if isinstance(made, str):
            return {self.name: made}
        return {f"{self.name}-{key}": text for key, text in made.items()}


def clean(name: str) -> list[Line]:
    """The lines of a file, which must be of commits."""
    lines = harness.read(harness.RESULTS / f"{name}.jsonl")
    if not lines:
        raise ValueError(f"bench/results/{name}.jsonl has no lines: run its script.")
    bad = sorted({str(line.get("commit")) for line in lines if not is_clean(line)})
    if bad:
        raise ValueError(
            f"bench/results/{name}.jsonl has lines of {', '.join(bad)}, whose code nobody can get: "
            "commit the changes and measure again."
        )
    return lines


def is_clean(line: Line) -> bool:
    """Whether a line is of a commit without further changes."""
    return not str(line.get("commit") or "-dirty").endswith("-dirty")


def files() -> str:
    """The files of lines: how many, and of which days."""
    rows = []
    for path in sorted(harness.RESULTS.glob("*.jsonl")):
        lines = harness.read(path)
        days = sorted({line["date"][:10] for line in lines if "date" in line})
        span = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "-"
        rows.append([f"`{path.name}`", str(len(lines)), span])
    return harness.markdown(["lines", "number", "days"], rows)


PAPERS = tuple(f"bench/paper00{number}/README.md" for number in range(5))
BENCH, SPEED = "bench/README.md", "docs/performance.md"
SCIENCE, COMPARISON = "docs/lab/five-papers.md", "docs/lab/comparison.md"
BLOCKS = (
    Block(BENCH, "files", files, ()),
    Block("docs/lab/device.md", "device", performance.device, ("device",)),
    Block(BENCH, "networks", performance.networks, ("networks",)),
    Block(BENCH, "made", performance.networks_made, ("networks-made",)),
    Block(BENCH, "shapes", performance.shapes, ("shapes",)),
    Block(BENCH, "verdicts", releases.verdicts, ("verdicts",)),
    Block("docs/lab/coverage.md", "analyses", releases.analyses, ("analyses",)),
    Block("docs/lab/coverage.md", "add-remove", releases.analyses, ("analyses-add-remove",)),
    Block("docs/lab/coverage.md", "emptied", releases.emptied, ("emptied",)),
    Block(BENCH, "statuses", releases.statuses, ("statuses",)),
    Block(BENCH, "public-tables", releases.public_tables, ("public-tables",)),
    Block(BENCH, "discovery", releases.discovery, ("discovery",)),
    Block(PAPERS[0], "errors", paper000.errors, ("paper000-kernel-pca",)),
    Block(PAPERS[0], "costs", paper000.costs, ("paper000-kernel-pca",)),
    Block(PAPERS[0], "ranges", paper000.unbiased, ("paper000-kernel-pca",)),
    Block(PAPERS[0], "ridge", paper000.ridge, ("paper000-ridge",)),
    Block(PAPERS[0], "entropy", paper000.entropy, ("paper000-max-entropy",)),
    Block(PAPERS[0], "publishing", paper000.publishing, ("paper000-publishing",)),
    Block(PAPERS[0], "real-rows", paper000.real_rows, ("paper000-real-rows",)),
    Block(PAPERS[1], "laplace", paper001.laplace, ("paper001-mae",)),
    Block(PAPERS[1], "tests", paper001.tests, ("paper001-mae",)),
    Block(PAPERS[1], "training", paper001.training, ("paper001-mae",)),
    Block(PAPERS[1], "epsilon", paper001.epsilon, ("paper001-mae",)),
    Block(PAPERS[1], "learners", paper001.learners, ("paper001-mae",)),
    Block(PAPERS[1], "online-weights", paper001.online_weights, ("paper001-online-weights",)),
    Block("bench/paper001/similarity.md", "similarity", paper001.similarity, ("paper001-similarity",)),
    Block("bench/paper001/similarity.md", "learners", paper001.similarity_learners, ("paper001-similarity",)),
    Block(PAPERS[2], "facebook", paper002.facebook, ("paper002-facebook",)),
    Block(PAPERS[2], "scaling", paper002.scaling, ("paper002-scaling",)),
    Block(PAPERS[2], "slope", paper002.scaling_numbers, ("paper002-scaling",)),
    Block(PAPERS[2], "mwem", paper002.mwem, ("paper002-mwem",)),
    Block(PAPERS[2], "mwem", paper002.mwem_numbers, ("paper002-mwem",)),
    Block(PAPERS[2], "bulk", paper002.bulk, ("paper002-bulk",)),
    Block(PAPERS[2], "bulk", paper002.bulk_numbers, ("paper002-bulk",)),
    Block(PAPERS[3], "joint", paper003.joint, ("paper003-inference",)),
    Block(PAPERS[3], "coverage", paper003.coverage, ("paper003-inference",)),
    Block(PAPERS[3], "blue", paper003.blue, ("paper003-inference",)),
    Block(PAPERS[3], "size", paper003.size, ("paper003-inference",)),
    Block(PAPERS[3], "beta", paper003.beta, ("paper003-inference",)),
    Block(PAPERS[3], "error", paper003.error, ("paper003-inference",)),
    Block(PAPERS[3], "sessions", paper003.sessions, ("paper003-sessions",)),
    Block(PAPERS[4], "figure-1", paper004.figure1, ("paper004-figure1",)),
    Block(PAPERS[4], "ratio", paper004.figure1_numbers, ("paper004-figure1",)),
    Block(PAPERS[4], "workloads", paper004.figure1_workloads, ("paper004-workloads",)),
    Block(PAPERS[4], "all-mechanisms", paper004.figure1_ratios, ("paper004-figure1",)),
    Block(PAPERS[4], "regularisation", paper004.regularisation, ("paper004-regularisation",)),
    Block(PAPERS[4], "pull", paper004.regularisation_numbers, ("paper004-regularisation",)),
    Block(PAPERS[4], "figure-2a", paper004.figure2a, ("paper004-figure2a",)),
    Block(PAPERS[4], "gain", paper004.figure2a_numbers, ("paper004-figure2a",)),
    Block(PAPERS[4], "game-steps", paper004.game_steps, ("paper004-game-steps",)),
    Block(PAPERS[4], "figure-3", paper004.figure3, ("paper004-figure3",)),
    Block(PAPERS[4], "figure-2b", paper004.scalability, ("paper004-scalability",)),
    Block(PAPERS[4], "aim", paper004.aim, ("paper004-aim",)),
    Block(SCIENCE, "verdicts", papers.verdicts, ()),
    Block(SCIENCE, "kernel-pca", paper000.kernel_pca, ("paper000-kernel-pca",)),
    Block(SCIENCE, "ridge", paper000.ridge, ("paper000-ridge",)),
    Block(SCIENCE, "nettrace", paper001.nettrace, ("paper001-mae",)),
    Block(SCIENCE, "rows", paper002.scaling_numbers, ("paper002-scaling",)),
    Block(SCIENCE, "cuts", paper002.facebook_numbers, ("paper002-facebook",)),
    Block(SCIENCE, "mwem", paper002.mwem_numbers, ("paper002-mwem",)),
    Block(SCIENCE, "coverage", paper003.coverage_numbers, ("paper003-inference",)),
    Block(SCIENCE, "sessions", paper003.sessions_nettrace, ("paper003-sessions",)),
    Block(SCIENCE, "figure-1", paper004.figure1_gains, ("paper004-figure1",)),
    Block(SCIENCE, "ratio", paper004.figure1_numbers, ("paper004-figure1",)),
    Block(SCIENCE, "gain", paper004.figure2a_numbers, ("paper004-figure2a",)),
    Block(SCIENCE, "step", paper004.scalability_numbers, ("paper004-scalability",)),
    Block(COMPARISON, "peers", paper004.peers, ("paper004-peers",)),
    Block(COMPARISON, "peers-cost", paper004.peers_cost, ("paper004-peers",)),
    Block(COMPARISON, "aim", paper004.aim_medians, ("paper004-aim",)),
    Block(COMPARISON, "figure-1", paper004.figure1_default, ("paper004-figure1",)),
    Block(COMPARISON, "recipe", releases.recipe, ("recipe",)),
    Block(COMPARISON, "recipe-real", releases.recipe_real, ("recipe",)),
    Block(COMPARISON, "fitting", releases.fitting, ("recipe_fitting",)),
    Block("docs/lab/speed.md", "peers", performance.peers, ("peers",)),
    Block("docs/lab/speed.md", "case", performance.peers_numbers, ("peers",)),
    Block("docs/lab/speed.md", "to-loss", performance.to_loss, ("to-loss",)),
    Block("docs/lab/speed.md", "growth", performance.growth, ("scaling",)),
    Block("docs/lab/speed.md", "forecasts", performance.forecasts, ("forecasts",)),
    Block("docs/lab/rows.md", "rows-errors", releases.rows_errors, ("rows-errors",)),
    Block("docs/lab/rows.md", "rows-device", performance.rows_device, ("rows",)),
    Block("docs/lab/rows.md", "rows", performance.rows, ("rows",)),
    Block("docs/lab/coverage.md", "coverage", releases.coverage, ("coverage",)),
    Block("docs/lab/learning.md", "batch", paper001.batch, ("paper001-batch",)),
    Block(SPEED, "release", performance.shapes_numbers, ("shapes",)),
    Block(SPEED, "scan", performance.rows_scan, ("scaling",)),
    Block(SPEED, "bulk", paper002.bulk_numbers, ("paper002-bulk",)),
)


def between(text: str) -> str:
    """A text as it stands between its markers: a table has empty lines around it."""
    return f"\n\n{text}\n\n" if "\n" in text else text


def written(page: str, text: str, made: dict[str, str]) -> str:
    """The page with everything between its markers made anew.

    Raises:
        ValueError: if a marker stands alone, begins a line of text, or has a name that no block has.
    """
    if lonely := LONELY.findall(MARKED.sub("", text)):
        raise ValueError(f"{page}: {lonely[0]} has no partner: write <!-- lines: NAME -->...<!-- /lines -->.")
    if leading := LEADING.findall(text):
        raise ValueError(
            f"{page}: a line begins with a number: put a word before {leading[0].strip()[:60]}..."
        )
    if unknown := [name for _, name, _, _ in MARKED.findall(text) if name not in made]:
        raise ValueError(
            f"{page}: no block is named {unknown[0]!r}; there are {', '.join(sorted(made)) or 'none'}."
        )
    return MARKED.sub(lambda found: found[1] + between(made[found[2]]) + found[4], text)


def pages(every: Sequence[Block], root: pathlib.Path) -> Iterator[tuple[pathlib.Path, str, str]]:
    """Every page with a marker or a block: its path, what it says and what the lines say."""
    made: dict[str, dict[str, str]] = {}
    for block in every:
        made.setdefault(block.page, {}).update(block.texts())
    found = [
        root / "README.md",
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "bench").rglob("*.md")),
    ]
    for path in (path for path in found if path.is_file()):
        page, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        new, names = written(page, text, made.get(page, {})), {name for _, name, _, _ in MARKED.findall(text)}
        for block in (block for block in every if block.page == page):
            if not names & (own := set(block.texts())):
                marker = f"<!-- lines: {min(own)} --><!-- /lines -->"
                raise ValueError(f"{page} has no marker of {block.name}: write {marker}.")
        yield path, text, new


def difference(page: str, text: str, new: str) -> str:
    """The first block that differs, as it stands and as the lines have it."""
    both = zip(MARKED.findall(text), MARKED.findall(new), strict=True)
    name, old, made = next((a[1], a[2], b[2]) for a, b in both if a[2] != b[2])
    apart = zip(f"{old}\n".splitlines(), f"{made}\n".splitlines(), strict=False)
    says, lines = next(((a, b) for a, b in apart if a != b), (old.strip(), made.strip()))
    return f"{page}, {name}:\n  the page: {says}\n  the lines: {lines}\nRun python bench/tables.py."


def main() -> int:
    """Write, check or print; returns the exit status."""
    parser = harness.parser(__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 where a page differs"
    )
    parser.add_argument("--print", metavar="NAME", help="print the blocks of this name, as PAGE: TEXT")
    options = parser.parse_args()
    try:
        if options.print:
            return printed(options.print, parser)
        for path, text, new in pages(BLOCKS, ROOT):
            if text == new:
                continue
            page = str(path.relative_to(ROOT))
            if options.check:
                print(difference(page, text, new), file=sys.stderr)
                return 1
            path.write_text(new, encoding="utf-8")
            harness.say(f"{page} written")
    except ValueError as error:
        print(f"tables.py: {error}", file=sys.stderr)
        return 1
    return 0


def printed(name: str, parser: argparse.ArgumentParser) -> int:
    """Print the blocks of a name."""
    found = [block for block in BLOCKS if block.name == name]
    if not found:
        parser.error(f"no block is named {name}; there are {', '.join(sorted({x.name for x in BLOCKS}))}")
    for block in found:
        for key, text in block.texts().items():
            print(f"{block.page}, {key}:\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
