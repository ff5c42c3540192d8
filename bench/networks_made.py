"""Generated networks: every part of a model's answers under 60 s and 8 GB, beside pyagrum's Markov networks.

Grids, lattices, pedigrees with loops, two-layer diagnosis, parity-check codes, clauses with zeros and random
pairs, each from a seed. A network is made a model by `GraphicalModel.from_potentials` and asked: 3 evidence
sets, all single and 10 random pair marginals. Each side runs in a process of its own, on one core, under a
limit of memory and of time: it is solved, or refused in words, or killed. Elimination orders are compared
with the best of random restarts of the greedy rules in the same seconds.

    python bench/networks_made.py --peer-python /path/to/python/with/pyagrum
    python bench/networks_made.py --names grid-20x22 sat-60x90-0      # some, ours alone
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import harness
import networks
import numpy as np

import pgmjax as pj
from pgmjax.inference.plan import elimination, junction_tree
from pgmjax.inference.plan.structure import Structure

PARTS = ("evidence", "singles", "pairs")
Network = tuple[list[int], list[tuple[tuple[int, ...], np.ndarray]]]  # sizes; scopes with their factors


def neighbours(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Pairs of neighbours of a lattice."""
    place = np.arange(math.prod(shape)).reshape(shape)
    for axis in range(len(shape)):
        ends = np.moveaxis(place, axis, 0)
        yield from zip(ends[:-1].ravel().tolist(), ends[1:].ravel().tolist(), strict=True)


def lattice(shape: tuple[int, ...], size: int, seed: int) -> Network:
    """A factor of log-normal entries for each pair of neighbours."""
    rng = np.random.default_rng(seed)
    return [size] * math.prod(shape), [(p, np.exp(rng.normal(0, 1, (size, size)))) for p in neighbours(shape)]


def loops(variables: int, pairs: int, seed: int) -> Network:
    """Factors of random pairs, with 2 to 4 values."""
    rng = np.random.default_rng(seed)
    every = list(itertools.combinations(range(variables), 2))
    sizes = rng.integers(2, 5, variables).tolist()
    chosen = [every[i] for i in rng.permutation(len(every))[:pairs]]
    return sizes, [(c, np.exp(rng.normal(0, 1, [sizes[v] for v in c]))) for c in chosen]


def pedigree(people: int, founders: int, seed: int) -> Network:
    """Genotypes of two alleles: founders, then children of two earlier people that are near in time."""
    rng = np.random.default_rng(seed)
    gamete = np.array([[1, 0], [0.5, 0.5], [0, 1]])  # alleles passed on by 0, 1, 2 copies
    child = np.zeros((3, 3, 3))
    for mother, father, a, b in itertools.product(range(3), range(3), range(2), range(2)):
        child[a + b, mother, father] += gamete[mother, a] * gamete[father, b]
    factors: list[tuple[tuple[int, ...], np.ndarray]] = []
    for person in range(people):
        if person < founders:
            factors.append(((person,), np.array([0.49, 0.42, 0.09])))
        else:
            first = max(0, person - 2 * founders)
            parents = (first + rng.permutation(person - first)[:2]).tolist()
            factors.append(((person, *parents), child))
    return [3] * people, factors


def diagnosis(diseases: int, findings: int, parents: int, seed: int) -> Network:
    """Findings as noisy ors of a few diseases; half of the findings are seen."""
    rng = np.random.default_rng(seed)
    factors: list[tuple[tuple[int, ...], np.ndarray]] = [
        ((d,), np.array([1 - p, p])) for d, p in enumerate(rng.uniform(0.01, 0.3, diseases))
    ]
    for finding in range(diseases, diseases + findings):
        chosen = rng.permutation(diseases)[:parents].tolist()
        absent = np.full((2,) * parents, 0.95)
        for axis, strength in enumerate(rng.uniform(0.2, 0.9, parents)):
            absent *= np.moveaxis(np.array([1, 1 - strength]).reshape((2,) + (1,) * (parents - 1)), 0, axis)
        factors.append(((finding, *chosen), np.stack([absent, 1 - absent])))
        if rng.random() < 0.5:
            factors.append(((finding,), np.array([0.05, 0.95])))
    return [2] * (diseases + findings), factors


def code(bits: int, checks: int, seed: int) -> Network:
    """Parity checks of four bits each, all even, and a noisy reading of every bit."""
    rng = np.random.default_rng(seed)
    even = (np.indices((2,) * 4).sum(0) % 2 == 0).astype(float)
    noise = [((v,), np.exp(rng.normal(0, 1) * np.array([1.0, -1.0]))) for v in range(bits)]
    return [2] * bits, [*noise, *((tuple(rng.permutation(bits)[:4].tolist()), even) for _ in range(checks))]


def clauses(variables: int, count: int, seed: int) -> Network:
    """Random clauses of three literals: a factor of one, with zero where all are false; one state is kept."""
    rng = np.random.default_rng(seed)
    kept = rng.integers(0, 2, variables)
    factors: list[tuple[tuple[int, ...], np.ndarray]] = []
    while len(factors) < count:
        scope = tuple(rng.permutation(variables)[:3].tolist())
        table = np.ones((2, 2, 2))
        wrong = tuple(rng.integers(0, 2, 3).tolist())
        table[wrong] = 0
        if wrong != tuple(kept[list(scope)].tolist()):
            factors.append((scope, table))
    return [2] * variables, factors


def made() -> dict[str, Callable[[], Network]]:
    """All networks, by name."""
    found: dict[str, Callable[[], Network]] = {}

    def add(name: str, make: Callable[..., Network], *arguments: Any) -> None:
        found[name] = lambda: make(*arguments)

    for a, b in (
        (8, 8),
        (10, 10),
        (12, 12),
        (14, 14),
        (16, 16),
        (18, 18),
        (20, 20),
        (20, 22),
        (22, 22),
        (24, 24),
    ):
        add(f"grid-{a}x{b}", lattice, (a, b), 2, a)
    for shape, size in (((6, 6), 4), ((7, 7), 4), ((8, 8), 4), ((10, 10), 3), ((6, 6), 8), ((4, 4, 4), 2),
                        ((5, 5, 5), 2), ((4, 4, 4), 3)):  # fmt: skip
        add(f"lattice-{'x'.join(map(str, shape))}-of-{size}", lattice, shape, size, size)
    for n, pairs in ((40, 60), (60, 90), (100, 130), (128, 160), (128, 200), (200, 240), (300, 340)):
        for seed in range(2):
            add(f"loops-{n}x{pairs}-{seed}", loops, n, pairs, seed)
    for people, founders in ((60, 10), (100, 12), (200, 12), (400, 12), (1000, 10)):
        for seed in range(2):
            add(f"pedigree-{people}x{founders}-{seed}", pedigree, people, founders, seed)
    for diseases, findings in ((20, 40), (30, 60), (40, 60), (60, 60), (100, 80)):
        for seed in range(2):
            add(f"diagnosis-{diseases}x{findings}-{seed}", diagnosis, diseases, findings, 4, seed)
    for bits, checks in ((40, 20), (60, 25), (80, 30), (100, 30)):
        for seed in range(2):
            add(f"code-{bits}x{checks}-{seed}", code, bits, checks, seed)
    for n, count in ((30, 60), (40, 120), (60, 90), (80, 100), (100, 110)):
        for seed in range(2):
            add(f"sat-{n}x{count}-{seed}", clauses, n, count, seed)
    return found


def questions(sizes: list[int], seed: int = 0) -> dict[str, Any]:
    """What is asked: evidence on up to a quarter of the variables, and pairs."""
    rng = np.random.default_rng(seed)
    count = len(sizes)
    evidence = []
    for _ in range(3):
        some = rng.permutation(count)[: rng.integers(1, count // 4 + 1)]
        evidence.append({f"x{v}": int(rng.integers(sizes[v])) for v in some.tolist()})
    pairs = [tuple(f"x{v}" for v in sorted(rng.permutation(count)[:2].tolist())) for _ in range(10)]
    return {"evidence": evidence, "pairs": pairs}


def graphical(network: Network) -> pj.GraphicalModel:
    """The model of a network; factors over the same variables are multiplied."""
    sizes, factors = network
    potentials: dict[tuple[str, ...], np.ndarray] = {}
    with np.errstate(divide="ignore"):
        for scope, table in factors:
            names = tuple(f"x{v}" for v in scope)
            potentials[names] = potentials.get(names, 0.0) + np.log(table)
    domain = pj.Domain({f"x{v}": size for v, size in enumerate(sizes)})
    return pj.GraphicalModel.from_potentials(domain, potentials)


def ours(network: Network, seconds: float) -> harness.Line:
    """Our answers and seconds; each question may take, by its forecast, what is left of the time."""
    pj.GraphicalModel.from_potentials(pj.Domain({"x": 2}), {("x",): np.zeros(2)}).calibrate()  # imports
    start = time.perf_counter()
    line: harness.Line = {}
    asked = questions(network[0])
    try:
        model = graphical(network)
        line["model_s"] = time.perf_counter() - start
        mine, line["seconds"] = networks.ours(model, asked, start + seconds)
    except pj.ModelTooLargeError as error:
        return {"refused": str(error), "refused_s": time.perf_counter() - start}
    mine["evidence"] = [math.exp(log) for log in mine["evidence"]]
    line["answers"] = {part: [np.asarray(each).ravel().tolist() for each in mine[part]] for part in PARTS}
    return line


def orders(network: Network) -> harness.Line:
    """Cells of the order found, and of random restarts of the greedy rules in the same seconds."""
    sizes, factors = network
    structure = Structure(tuple(sizes), tuple(scope for scope, _ in factors))
    start = time.perf_counter()
    found = elimination.best(structure)
    seconds = time.perf_counter() - start
    greedy = junction_tree.best_elimination(structure)
    core, variables = elimination._core(structure, elimination._simplicial(structure, greedy), ())
    search = elimination._Search(core, 1.0)
    end, tried = time.perf_counter() + seconds, 0
    search.random = np.random.default_rng(1)
    while search.free and (time.perf_counter() < end or not tried):
        search._try(0, search.free, elimination.RULES[tried % len(elimination.RULES)])
        tried += 1
    order = (*elimination._simplicial(structure, greedy), *(variables[i] for i in search.order))
    restarts = elimination._elimination(structure, order)
    widest = {
        name: max(map(structure.cells, order.cliques))
        for name, order in (("found", found), ("restarts", restarts))
    }
    cells = {
        name: elimination._cells(structure, order)
        for name, order in (("found", found), ("restarts", restarts))
    }
    return {"search_s": seconds, "restarts": tried, "widest": widest, "cells": cells}


def main() -> None:
    """Run each network in processes of its own and keep a line of it."""
    parser = harness.parser(__doc__)
    every = made()
    parser.add_argument("--names", nargs="+", default=list(every))
    parser.add_argument("--peer-python", help="an interpreter that has pyagrum; none: ours alone")
    parser.add_argument("--memory", type=float, default=8.0, help="limit of a process, GB")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for a network")
    parser.add_argument(
        "--one", choices=("ours", "orders"), help="run the first name here and print its line"
    )
    args = parser.parse_args()
    if args.one:
        network = every[args.names[0]]()
        print(json.dumps(ours(network, args.timeout) if args.one == "ours" else orders(network)))
        return
    kept = harness.Results("networks-made", ("network",))
    for name in args.names:
        line = kept.add({"network": name, **measured(name, every[name](), args)})
        harness.say(
            json.dumps({key: line[key] for key in ("network", "ours", "peer", "difference") if key in line})
        )


def measured(name: str, network: Network, args: argparse.Namespace) -> harness.Line:
    """Both sides, in turn, and the orders."""
    limits: dict[str, Any] = {"memory_gb": args.memory, "timeout": args.timeout, "label": name}
    mine = harness.run(
        ["taskset", "-c", "0", sys.executable, __file__, "--names", name, "--one", "ours"], **limits
    )
    answers = mine.pop("answers", None)
    line: harness.Line = {"variables": len(network[0]), "factors": len(network[1]), "ours": mine}
    line["orders"] = harness.run([sys.executable, __file__, "--names", name, "--one", "orders"], **limits)
    if args.peer_python:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "network.json")
            sizes, factors = network
            tables = [[list(scope), np.asarray(t).ravel().tolist()] for scope, t in factors]
            path.write_text(json.dumps({"sizes": sizes, "factors": tables, **questions(sizes)}))
            script = str(pathlib.Path(__file__).with_name("networks_pyagrum.py"))
            command = ["taskset", "-c", "0", args.peer_python, script, str(path)]
            theirs = harness.run(command, **limits)
        others = theirs.pop("answers", None)
        line["peer"] = theirs
        if answers and others:
            line["difference"] = {
                part: max(
                    float(np.abs(np.subtract(a, b)).max())
                    for a, b in zip(answers[part], others[part], strict=True)
                )
                for part in others
            }
    return line


if __name__ == "__main__":
    main()
