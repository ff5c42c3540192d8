"""Does the mechanism that simulated tables recommend win on the real table?

    python bench/recommend.py [TABLE ...] [--epsilons E ...] [--seeds N] [--table]

`pgmjax.mechanisms.compare` sees the domain, the triples of paper004/ as marginals, epsilon and the number of
records. Every mechanism that it ran then runs on the table itself with as many seeds. One line of
bench/results/recommend.jsonl for each table and epsilon, replace-one and delta 0. The errors are research on
public tables: they are computed from the exact answers.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "paper004"))

import harness
import workload as tables
from harness import Line

import pgmjax as pj

OUT = harness.RESULTS / "recommend.jsonl"


def compared(name: str, epsilon: str, seeds: int) -> Line:
    """Return the errors on simulated tables and on the real one, by mechanism."""
    domain, data = tables.load(name)
    records = data.count()
    cliques = tables.workload(name, domain, records).cliques
    workload = pj.Workload.of_marginals(cliques)
    found = pj.mechanisms.compare(
        domain, workload, epsilon=epsilon, relation="replace-one", records=records, seeds=seeds
    )
    exact = tables.exact_answers(workload, data)
    real = {}
    for each in found.mechanisms:
        errors = []
        for seed in range(seeds):
            mechanism = pj.mechanisms.names()[each.name](
                epsilon,
                "replace-one",
                estimator=pj.Estimator(progress=False),
                backend=pj.privacy.SeededBackend(seed, insecure=True),
            )
            release = mechanism.run(data, workload, show_progress=False)
            errors.append(tables.relative(exact, release.answers()))
        real[each.name] = sum(errors) / seeds
        harness.say(f"{name}, epsilon {epsilon}, {each.name}: {each.average:.3f}, real {real[each.name]:.3f}")
    return {"table": name, "real": real, "simulated": found.to_dict()}


def show(lines: Sequence[Line]) -> None:
    """The recommended mechanism beside the best one on the table, by table and epsilon."""
    print("| table | epsilon | recommended | its real error | best | its real error | ratio |")
    print("|---|---|---|---|---|---|---|")
    for line in lines:
        real, named = line["real"], line["simulated"]["recommended"]
        best = min(real, key=real.__getitem__)
        ours = f"{named} | {real[named]:.3f}" if named else "none | "
        ratio = f"{real[named] / real[best]:.2f}" if named else ""
        epsilon = line["simulated"]["epsilon"]
        print(f"| {line['table']} | {epsilon} | {ours} | {best} | {real[best]:.3f} | {ratio} |")


def main() -> None:
    """Compare and record, or print what is recorded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", default=["titanic"])
    parser.add_argument("--epsilons", nargs="+", default=["0.1", "1", "10"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print the recorded lines and run nothing")
    options = parser.parse_args()
    for name in [] if options.table else options.tables:
        for epsilon in options.epsilons:
            load = harness.load_average()
            line = compared(name, epsilon, options.seeds)
            harness.append(options.out, {**line, "load_before": load, **harness.provenance()})
    show(harness.read(options.out))


if __name__ == "__main__":
    main()
