"""Sentences of README, the pages and the command line at an earlier commit, beside what stands there now.

Thirty sentences are drawn by a seed from those that stood there then and do not now. Beside each stands the
sentence of today that shares most words with it; some have no successor.

    python bench/sentences.py a26d440            # writes bench/results/sentences.md
"""

from __future__ import annotations

import argparse
import ast
import difflib
import random
import re
import subprocess
from collections.abc import Iterator

from checkout import ROOT

OUT = ROOT / "bench" / "results" / "sentences.md"
CODE = re.compile(r"^```.*?^```|^\|.*?$|^#.*?$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"(?<=[.:!?])\s+(?=[A-Z`*])")


def git(*words: str) -> str:
    """Return what git says."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def strings(text: str) -> Iterator[str]:
    """Yield the longer strings of a module that are no docstrings."""
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def sentences(commit: str) -> list[str]:
    """Return the sentences of a commit's pages and of its command line."""
    found = []
    for path in git("ls-tree", "-r", "--name-only", commit, "README.md", "docs", "pgmjax/cli").splitlines():
        if path.endswith(".md") and "decisions" not in path:
            texts = [CODE.sub("\n\n", git("show", f"{commit}:{path}"))]
        elif path.endswith(".py") and path.startswith("pgmjax"):
            texts = list(strings(git("show", f"{commit}:{path}")))
        else:
            continue
        for paragraph in re.split(r"\n\s*\n|\n\s*- ", "\n\n".join(texts)):
            plain = " ".join(paragraph.split()).removeprefix("- ")
            found += [one for one in SENTENCE.split(plain) if len(one.split()) >= 8]
    return found


def main() -> None:
    """Draw the sentences and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="the earlier commit")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    now = sentences("HEAD")
    gone = sorted(set(sentences(args.before)) - set(now))
    lines = [
        "# Thirty sentences, before and now",
        "",
        f"Drawn by `python bench/sentences.py {args.before}`",
        "",
    ]
    lines[2] += (
        f" (seed {args.seed}) from {len(gone):,} sentences of {args.before[:7]} that stand nowhere now."
    )
    lines += ["| before | the nearest sentence now |", "|---|---|"]
    for old in random.Random(args.seed).sample(gone, 30):
        words = set(old.lower().split())
        near = sorted(now, key=lambda one: -len(words & set(one.lower().split())) / (len(one.split()) + 8))[
            :40
        ]
        best = max(near, key=lambda one: difflib.SequenceMatcher(None, old, one).ratio())
        shared = difflib.SequenceMatcher(None, old, best).ratio()
        after = best if shared > 0.45 else "(no successor)"
        lines.append(f"| {old.replace('|', '/')} | {after.replace('|', '/')} |")
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
