"""The examples of README and `docs/` run, and the site shows what they print and draw below each block.

The Python blocks of a page share a namespace and run in order in an empty folder. The shell blocks run in
order in a folder that has the table of `start.md`. A block whose first line is `# not run: REASON` is left
out. The tests leave the outputs in the folder that `PGMJAX_EXECUTED` names, if it is set, and the site takes
them from there.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import html
import io
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).parent.parent
FENCE = re.compile(r"^(<!-- test-command -->\n)?```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"# not run: \S+")
INSTALLS = re.compile(r"^(python\S* -m venv|\S*pip install)\b")
MOST_LINES = 40


class Block(NamedTuple):
    """A block of code of a page: its language, the line where its code begins, and the code."""

    language: str
    line: int
    code: str


def pages() -> list[pathlib.Path]:
    """README and the pages of the site."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str, language: str) -> list[Block]:
    """Return the blocks of a page that are to be run."""
    return [
        Block(found[2], text[: found.start(3)].count("\n") + 1, found[3])
        for found in FENCE.finditer(text)
        if found[2] == language and not found[1] and not NOT_RUN.match(found[3])
    ]


def commands(code: str) -> list[list[str]]:
    """Return the commands of a shell block, as the words that `pgmjax` gets; lines that install are left out.

    Raises:
        ValueError: a command is not `pgmjax`.
    """
    found = []
    for line in code.replace("\\\n", " ").splitlines():
        for part in line.split(" && "):
            words = shlex.split(part.strip(), comments=True)
            if words and not INSTALLS.match(" ".join(words)):
                if pathlib.Path(words[0]).name != "pgmjax":
                    raise ValueError(f"A block to be run runs {words[0]}.")
                found.append(words[1:])
    return found


def example_tables(folder: pathlib.Path) -> None:
    """Write the domain file of `start.md`, tables and published answers that fit it, and the grids."""
    import numpy as np

    page = (ROOT / "docs" / "start.md").read_text()
    spec, *_ = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (folder / "people.yaml").write_text(spec)
    rng = np.random.default_rng(3)
    sexes = rng.choice(["Female", "Male", "?"], 2000)
    visits = "".join(f"p{k // 3},{k % 60},{sexes[k % 2000]}\n" for k in range(30_000))
    (folder / "visits.csv").write_text("person_id,age,sex\n" + visits)
    rows = zip(rng.integers(0, 120, 2000), sexes, rng.integers(0, 12, 2000), strict=True)
    with gzip.open(folder / "people.csv.gz", "wt") as table:
        table.write("age,sex,region\n" + "".join(f"{a},{s},{r}\n" for a, s, r in rows))
    rated = np.argwhere(rng.random((40, 30)) < 0.5)
    scores = 1 + (rated.sum(axis=1) + rng.integers(0, 2, len(rated))) % 5
    ratings = "".join(f"{a},{b},{score}\n" for (a, b), score in zip(rated, scores, strict=True))
    (folder / "ratings.csv").write_text("record,item,rating\n" + ratings)
    asked = ["*", "age<35", "sex=Female", "age<35,sex=Female", "age>=50,sex=Male", "region<6,age<25"]
    noisy = zip(asked, [2003, 571, 659, 197, 402, 214], strict=True)
    lines = "".join(f'"{text}",{value},10,laplace\n' for text, value in noisy)
    (folder / "answers.csv").write_text("query,value,scale,noise\n" + lines)
    cells = [(sex, region, 60 + 7 * region) for sex in ("Female", "Male") for region in range(12)]
    counts = "".join(f"{sex},{region},{value}\n" for sex, region, value in cells)
    (folder / "counts.csv").write_text("sex,region,value\n" + counts)
    (folder / "friends.csv").write_text("edge\n" + "".join(f"{k % 3 // 2}\n" for k in range(190)))
    (folder / "friends.json").write_text('{"edge": 2}')
    page = (ROOT / "docs" / "constraints.md").read_text()
    (facts,) = re.findall(r'^\[\{"kind".*\]$', page, re.MULTILINE)
    (folder / "facts.json").write_text(facts)
    (folder / "bench").symlink_to(ROOT / "bench")


def run_python(path: pathlib.Path) -> list[dict[str, Any]]:
    """Run the Python blocks of a page in the current folder; return what each printed and drew."""
    namespace = {"__name__": "__page__"}
    outputs = []
    for _, line, code in blocks(path.read_text(), "python"):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            # leading newlines make the line numbers of a traceback those of the page
            text = "\n" * (line - 1) + code
            exec(compile(text, str(path), "exec", dont_inherit=True), namespace)
        outputs.append({"text": said.getvalue(), "figures": list(_figures())})
    return outputs


def run_commands(path: pathlib.Path, done: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Run the shell blocks of a page in the current folder; return what each printed.

    Args:
        path: the page.
        done: what commands of other pages, in the same folder, printed; they are not run again.

    Raises:
        RuntimeError: a command did not end with 0.
    """
    from pgmjax.cli import main

    outputs, earlier = [], dict(done or {})
    for _, _, code in blocks(path.read_text(), "bash"):
        text = ""
        for words in commands(code):
            line = shlex.join(words)
            if line not in earlier:
                with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
                    if main(words) != 0:
                        raise RuntimeError(f"pgmjax {line} failed:\n{said.getvalue()}")
                printed = said.getvalue().replace(f"{pathlib.Path.cwd()}/", "")
            else:
                printed = earlier[line]
            text += printed
            if done is not None:
                done[line] = printed
        outputs.append({"text": text, "figures": []})
    return outputs


def leave(path: pathlib.Path, language: str, outputs: list[dict[str, Any]]) -> None:
    """Leave outputs where the site finds them, if `PGMJAX_EXECUTED` names a folder."""
    if "PGMJAX_EXECUTED" in os.environ:
        _copy(path, language).parent.mkdir(parents=True, exist_ok=True)
        _copy(path, language).write_text(json.dumps(outputs))


def _copy(path: pathlib.Path, language: str) -> pathlib.Path:
    name = "-".join(path.relative_to(ROOT).with_suffix("").parts)
    return pathlib.Path(os.environ.get("PGMJAX_EXECUTED", "")) / "pages" / f"{name}-{language}.json"


def _figures() -> Iterator[str]:
    """Yield the open figures of matplotlib as PNG in base 64, and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot is not None else ():
        drawn = io.BytesIO()
        pyplot.figure(number).savefig(drawn, format="png", dpi=100, bbox_inches="tight")
        pyplot.close(number)
        yield base64.b64encode(drawn.getvalue()).decode()


def _outputs(path: pathlib.Path, language: str, run: Callable[[pathlib.Path], list[dict[str, Any]]]) -> Any:
    """Return the outputs that the tests left, or those of a run in an empty folder."""
    count = len(blocks(path.read_text(), language))
    if "PGMJAX_EXECUTED" in os.environ and _copy(path, language).is_file():
        left = json.loads(_copy(path, language).read_text())
        if len(left) == count:  # else the page has changed since
            return left
    if count == 0:
        return []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if language == "bash":
            example_tables(pathlib.Path(folder))
        return run(path)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Write the outputs of each block below it."""
    path = pathlib.Path(config["docs_dir"]) / page.file.src_uri
    if not path.is_file():
        return markdown  # a notebook, which has its outputs
    waiting = {
        "python": iter(_outputs(path, "python", run_python)),
        "bash": iter(_outputs(path, "bash", run_commands)),
    }

    def shown(found: re.Match[str]) -> str:
        if found[1] or NOT_RUN.match(found[3]):
            return found[0]
        output = next(waiting[found[2]])
        parts = [found[0]]
        if output["text"].strip():
            parts.append(f'<pre class="output">{html.escape(_cut(output["text"]))}</pre>')
        parts += [
            f'<img alt="What the code draws" src="data:image/png;base64,{png}">' for png in output["figures"]
        ]
        return "\n\n".join(parts)

    return FENCE.sub(shown, markdown)


def _cut(text: str) -> str:
    lines = text.strip("\n").splitlines()
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."])
