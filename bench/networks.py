"""Real Bayesian networks: ours beside pyagrum's, log-probabilities of evidence, single and pair marginals.

The networks are the .bif.gz files in the wheel of pgmpy 1.0.0 (later wheels fetch them). Each is read,
made a model by `GraphicalModel.from_potentials`, and asked: 20 evidence sets (a random half or less of
the variables of a sampled row), 5 sets of random values (often impossible: exactly zero on both sides),
all single and 50 random pair marginals. Each network runs in a process of its own under a limit of memory
and of time: it is solved, or refused with the figures.

    pip download --no-deps pgmpy==1.0.0 && unzip -q pgmpy-1.0.0-py3-none-any.whl -d wheel
    python bench/networks.py wheel --peer-python /path/to/python/with/pyagrum
    python bench/networks.py wheel --names munin1        # without a peer: ours alone
"""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import bif
import harness
import numpy as np

import pgmjax as pj

NAMES = ("alarm", "child", "insurance", "hailfinder", "win95pts", "pathfinder", "andes", "munin1")
PARTS = ("evidence", "singles", "pairs")


def questions(
    model: pj.GraphicalModel, labels: dict[str, list[str]], possible: int, wild: int, count: int
) -> Any:
    """What is asked: evidence (as codes) and pairs."""
    rng = np.random.default_rng(0)
    names = list(labels)
    rows = model.sample(possible, seed=0)
    sets = []
    for n in range(possible + wild):
        some = rng.permutation(len(names))[: rng.integers(1, len(names) // 2 + 1)]
        draw = {names[v]: int(rng.integers(len(labels[names[v]]))) for v in some}
        sets.append({name: int(rows[name][n]) for name in draw} if n < possible else draw)
    pairs: dict[tuple[str, ...], None] = {}
    while len(pairs) < count:
        pairs[tuple(names[v] for v in sorted(rng.permutation(len(names))[:2]))] = None
    return {"labels": labels, "evidence": sets, "pairs": list(pairs)}


def ours(model: pj.GraphicalModel, asked: Any, end: float = math.inf) -> tuple[Any, dict[str, float]]:
    """Our answers, and seconds of each part; every part begins from the plain model, as the peer's does.

    Args:
        model: the model.
        asked: the questions.
        end: when the last answer must be there (s, by the clock that counts seconds). A question that is
            forecast to end later is refused.
    """

    def limited() -> pj.GraphicalModel:
        left = end - time.perf_counter()
        return model if left == math.inf else model.within(max_seconds=max(left, 1e-3))

    seconds = {}
    start = time.perf_counter()
    logs = [limited().log_partition(evidence) - limited().log_partition() for evidence in asked["evidence"]]
    seconds["evidence"] = time.perf_counter() - start
    start = time.perf_counter()
    singles = [table for _, table in limited().calibrate().all_marginals(1)]
    seconds["singles"] = time.perf_counter() - start
    start = time.perf_counter()
    calibrated = limited().calibrate()
    need = sum(calibrated.seconds(pair) for pair in asked["pairs"])
    if need > end - time.perf_counter():
        raise pj.ModelTooLargeError(f"the pairs are forecast to take {need:.3g} s, more than is left.", 0)
    pairs = [table for _, table in calibrated.marginals(asked["pairs"])]
    seconds["pairs"] = time.perf_counter() - start
    return {"evidence": logs, "singles": singles, "pairs": pairs}, seconds


def peer(python: str, text: str, asked: Any) -> Any:
    """The peer's answers."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("net.bif", "questions.json", "answers.json")]
        paths[0].write_text(text)
        paths[1].write_text(json.dumps(asked))
        script = pathlib.Path(__file__).with_name("networks_pyagrum.py")
        subprocess.run([python, str(script), *map(str, paths)], check=True, stdout=subprocess.DEVNULL)
        return json.loads(paths[2].read_text())


def differences(mine: Any, theirs: Any) -> dict[str, float]:
    """The largest difference of each part: of log-probabilities (nats) and of probabilities."""
    found = {"evidence": 0.0}
    for log, probability in zip(mine["evidence"], theirs["evidence"], strict=True):
        other = math.log(probability) if probability > 0 else -math.inf
        found["evidence"] = max(found["evidence"], 0.0 if log == other else abs(log - other))
    for part in ("singles", "pairs"):
        both = zip(mine[part], theirs[part], strict=True)
        found[part] = max(float(np.abs(a.ravel() - np.array(b)).max()) for a, b in both)
    return found


def solve(path: pathlib.Path, python: str | None, possible: int, pairs: int) -> harness.Line:
    """One network, in this process."""
    text = bif.text_of(path)
    labels, families = bif.read(text)
    line: harness.Line = {"variables": len(labels), "largest_family": max(t.size for t in families.values())}
    start = time.perf_counter()
    try:
        model = bif.model(labels, families)
        line["model_s"] = time.perf_counter() - start
        line["log_partition"] = model.log_partition()
        asked = questions(model, labels, possible, wild=5, count=pairs)
        mine, seconds = ours(model, asked)
    except pj.ModelTooLargeError as error:
        return {**line, "refused": str(error), "refused_s": time.perf_counter() - start}
    line["impossible"] = sum(log == -math.inf for log in mine["evidence"])
    line["seconds"] = seconds
    if python is not None:
        theirs = peer(python, text, asked)
        line["difference"] = differences(mine, theirs)
        line["peer_seconds"] = theirs["seconds"]
        line["peer"] = f"pyagrum {theirs['version']}"
    return line


def main() -> None:
    """Run each network in a process of its own and keep a line of it."""
    parser = harness.parser(__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="holds the .bif.gz files, at any depth")
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--peer-python", help="an interpreter that has pyagrum; none: ours alone")
    parser.add_argument("--evidence", type=int, default=20, help="possible evidence sets")
    parser.add_argument("--pairs", type=int, default=50, help="pair marginals")
    parser.add_argument("--memory", type=float, default=12.0, help="limit of a process, GB")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a network")
    parser.add_argument("--one", action="store_true", help="solve the first name here and print its line")
    args = parser.parse_args()
    if args.folder is None:
        parser.error("name the folder that holds the .bif.gz files")
    kept = harness.Results("networks", ("network",))
    for name in args.names:
        path = min(args.folder.rglob(f"{name}.bif.gz"), default=None)
        if path is None:
            parser.error(f"{name}.bif.gz is not in the folder")
        if args.one:
            print(json.dumps(solve(path, args.peer_python, args.evidence, args.pairs)))
            return
        command = [sys.executable, __file__, str(path.parent), "--names", name, "--one"]
        command += ["--evidence", str(args.evidence), "--pairs", str(args.pairs)]
        command += ["--peer-python", args.peer_python] if args.peer_python else []
        line = harness.run(command, memory_gb=args.memory, timeout=args.timeout, label=name)
        line = kept.add({"network": name, **line, "memory_gb": args.memory})
        shown = ("network", "difference", "seconds", "refused", "failed")
        harness.say(json.dumps({key: line[key] for key in shown if key in line}))


if __name__ == "__main__":
    main()
