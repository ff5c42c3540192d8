"""docs/proofs.md: every mechanism and score has a proof in one form, and names a test that is there."""

import ast
import inspect
import pathlib
import re

import pgmjax as pj
from pgmjax.privacy import scores

ROOT = pathlib.Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "proofs.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
ENTRIES = ["Claim", "Neighbours", "Lemma", "Proof", "Test"]


def test_every_proof_has_the_five_entries_and_names_a_test_that_is_there():
    for title, text in SECTIONS.items():
        assert re.findall(r"^- \*\*(\w+)\.\*\* ", text, re.MULTILINE) == ENTRIES, title
        path, name = re.search(r"\*\*Test\.\*\* `(tests/\S+)::(\w+)`\n*$", text).groups()
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, title


def test_every_mechanism_and_score_has_a_proof():
    proved = set(re.findall(r"`([\w-]+)`", " ".join(SECTIONS)))
    of_scores = {
        name
        for name, found in inspect.getmembers(scores, inspect.isclass)
        if issubclass(found, scores.Score) and not inspect.isabstract(found)
    }
    assert len(of_scores) >= 8 and of_scores | set(pj.mechanisms.names()) | {"OnlineWeights"} <= proved
