"""A public table as the prior of a fit: a tenth of the records is public, the rest is measured by batch AIM.

    PGMJAX_DATA=... python bench/prior.py [--tables titanic adult] [--epsilons 0.1 1] [--seeds 2] [--table]

The public tenth is drawn at random, or has the youngest people. A model of its marginals is the prior of fits
of batch AIM's answers (fifteen triples, add-remove, delta 1e-9), with multiples of the automatic weight of
regularisation as `prior_weight`. The error is the mean L1 distance of the triples' shares from those of the
private records. One line of bench/results/prior.jsonl for each run; what is there is not run again. Research
on public tables with seeded noise.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "paper004"))

import harness
import numpy as np
import workload as tables
from harness import Line
from showing import markdown

import pgmjax as pj
from pgmjax.estimation import regularisation

OUT = harness.RESULTS / "prior.jsonl"
SHARES = (0.0, 0.1, 1.0, 10.0, 100.0)
PUBLIC = ("random", "youngest")


class Divided:
    """A table in a public tenth and private rest, the triples of its workload, and the prior."""

    def __init__(self, name: str, public: str):
        domain, data = tables.load(name)
        parts = list(data.records(domain.attributes))
        codes = {name: np.concatenate([part[name] for part in parts]) for name in domain.attributes}
        count = len(codes[domain.attributes[0]])
        ages = codes[next(each for each in domain.attributes if each.lower() == "age")]
        order = (
            np.random.default_rng(0).permutation(count)
            if public == "random"
            else np.argsort(ages, kind="stable")
        )
        few, rest = order[: count // 10], order[count // 10 :]
        self.domain = domain
        self.cliques = list(tables.workload(name, domain, count).cliques)
        self.private, shown = (
            pj.Dataset.from_columns(domain, {name: column[some] for name, column in codes.items()})
            for some in (rest, few)
        )
        self.truth = [table / table.sum() for table in self.private.marginals(self.cliques)]
        self.prior = self._model(shown, len(rest) / len(few))

    def _model(self, shown: pj.Dataset, scale: float) -> pj.GraphicalModel:
        """The model of the public marginals, each with the noise of drawing its records."""
        count = shown.count()
        known = [
            pj.LinearMeasurement(clique, table * scale, stddev=scale * max(1.0, (count / table.size) ** 0.5))
            for clique, table in zip(self.cliques, shown.marginals(self.cliques), strict=True)
        ]
        return pj.Estimator(max_steps=1000, progress=False).fit(self.domain, known).model

    def error(self, model: pj.GraphicalModel) -> float:
        """Mean L1 distance of the shares."""
        pairs = zip(self.cliques, self.truth, strict=True)
        return float(np.mean([np.abs(t - model.marginal(c) / model.total).sum() for c, t in pairs]))


def run(table: Divided, epsilon: str, seed: int) -> Line:
    """Errors with the prior by the share of the automatic weight, and without."""
    backend = pj.privacy.SeededBackend(seed, insecure=True)
    mechanism = pj.mechanisms.BatchAIM(
        epsilon, "add-remove", "1e-9", estimator=pj.Estimator(progress=False), backend=backend
    )
    release = mechanism.run(table.private, pj.Workload(table.cliques), show_progress=False)
    answers, total = release.measurements, release.model.total
    weight = regularisation.weight_of("auto", table.domain, answers, total)
    errors = {}
    for share in SHARES:
        estimator = pj.Estimator(max_steps=1000, progress=False)
        fit = estimator.fit(table.domain, answers, total, prior=table.prior, prior_weight=share * weight)
        errors[f"{share:g}"] = table.error(fit.model)
    return {
        "weight": weight,
        "without": table.error(release.model),
        "public": table.error(table.prior),
        "errors": errors,
    }


def show(lines: Sequence[Line]) -> str:
    """Geometric means over seeds, by table, public records and epsilon."""
    head = ["table", "public tenth", "epsilon", "public alone", "no prior", *(f"{s:g} w" for s in SHARES)]
    keys = dict.fromkeys((line["table"], line["public_records"], line["epsilon"]) for line in lines)
    rows = []
    for key in keys:
        some = [one for one in lines if (one["table"], one["public_records"], one["epsilon"]) == key]
        each = [[one["public"], one["without"], *one["errors"].values()] for one in some]
        rows.append([*key, *(f"{value:.3f}" for value in np.exp(np.log(each).mean(0)))])
    return markdown(head, rows)


def main() -> None:
    """Run what is missing, and print the table."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--tables", nargs="+", default=["titanic", "adult"])
    parser.add_argument("--epsilons", nargs="+", default=["0.1", "1"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="run nothing, print what there is")
    args = parser.parse_args()
    keys = ("table", "public_records", "epsilon", "seed")
    done = {tuple(line[key] for key in keys) for line in harness.read(OUT)}
    for name, public in itertools.product([] if args.table else args.tables, PUBLIC):
        cells = [(name, public, *rest) for rest in itertools.product(args.epsilons, range(args.seeds))]
        missing = [cell for cell in cells if cell not in done]
        if not missing:
            continue
        divided = Divided(name, public)
        for cell in missing:
            line = {**dict(zip(keys, cell, strict=True)), **run(divided, cell[2], cell[3])}
            harness.append(OUT, {**line, **harness.provenance(), "date": harness.now()})
            harness.say(f"{cell}: {line['without']:.3f} without, {line['errors']}")
    print(show(harness.read(OUT)))


if __name__ == "__main__":
    main()
