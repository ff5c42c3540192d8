"""`pgmjax similarities`: learn how alike records are from noisy similarities of pairs, and predict others."""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import pathlib
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.cli import process
from pgmjax.cli.history import learner_named
from pgmjax.data.ratings import Ratings, check_pairs
from pgmjax.mechanisms.mldp_similarity import SimilarityMLDP, SimilarityPredictor
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ratings import GRID, value_range
from pgmjax.privacy.seeded import SeededBackend

_COLUMNS = ["record", "item", "rating"]
_MOST = 2000  # records of which all pairs are written
_PROTECTED = {"record": "all ratings of one record", "rating": "one rating"}


def run(arguments: argparse.Namespace) -> None:
    """Measure, learn, and print the similarities that are asked for or write those of all pairs."""
    out = None if arguments.out is None else checks.new_file(arguments.out)
    if (out is None) == (not arguments.pair):
        raise ValueError("Say what to predict: pairs such as 3,17, or --out FILE for all pairs.")
    if out is not None and arguments.records > _MOST:
        raise ValueError(f"--out writes all pairs of at most {_MOST:,} records: name pairs such as 3,17.")
    pairs = _pairs(arguments.pair, arguments.records)
    seed = arguments.insecure_seed
    mechanism = SimilarityMLDP(
        epsilon=arguments.epsilon,
        relation=arguments.relation,
        protect=arguments.protect,
        measure=arguments.measure,
        training_count=arguments.training_count,
        learner=learner_named(arguments.learner),
        backend=None if seed is None else SeededBackend(seed, insecure=True),
    )
    ratings = _read(arguments)
    low, high = value_range(arguments.measure, ratings.scale, ratings.shape[1])
    each, width = mechanism.noise_stddev(ratings), high - low
    mean = each / math.sqrt(arguments.training_count)
    # with more noise neither whether similarities are large is learned, nor anything of one pair beyond that
    worst = max(mean / (width / 4), each / (4 * width))
    if seed is None and worst > 1:
        raise ValueError(
            f"Each of {arguments.training_count} measured similarities would have noise of standard "
            f"deviation {each:.3g}, their mean of {mean:.3g}, and similarities lie in {low:.3g} to "
            f"{high:.3g}: nothing would be learned. It takes --epsilon "
            f"{float(mechanism.epsilon) * worst:.2g} or more, or more records or items. Nothing was spent."
        )
    found = mechanism.run(ratings)
    predicted = zip(pairs.tolist(), found.predict(pairs).tolist(), strict=True)
    lines = [(a, b, value) for (a, b), value in predicted]
    if out is not None:
        with open(out, "x", encoding="utf-8") as file:
            file.write("record,other,similarity\n")
            file.writelines(f"{a},{b},{value:.6f}\n" for a, b, value in lines)
    _tell(arguments, found, [] if out is not None else lines)


def _tell(
    arguments: argparse.Namespace, found: SimilarityPredictor, lines: list[tuple[int, int, float]]
) -> None:
    """Print similarities, what they rest on and what they cost."""
    number, cost = len(found.released.pairs), as_text(found.epsilon)
    noise = GRID * found.released.distribution.stddev
    told = {
        "noise_stddev": noise,
        "epsilon": cost,
        "protect": found.protect,
        "secure": found.secure,
        "trained_on": number,
    }
    listed = [{"pair": [a, b], "similarity": value} for a, b, value in lines]
    words = [f"{a},{b}: {value:.3f}" for a, b, value in lines]
    words += [f"The similarities of all pairs are in {arguments.out}."] * (arguments.out is not None)
    words += [
        f"Predicted from {number:,} noisy similarities, with noise of standard deviation {noise:,.3g} in "
        f"each; similarities lie in {found.limits[0]:,.3g} to {found.limits[1]:,.3g}.",
        f"Spent: epsilon = {cost} under replace-one, protecting {_PROTECTED[found.protect]}.",
    ]
    process.tell(arguments.json, {**told, "similarities": listed, "out": arguments.out}, words)
    width = found.limits[1] - found.limits[0]
    if noise > width:
        process.say(
            f"The noise of each measured similarity is {noise / width:,.2g} times as wide as these can "
            "differ: what is learned is little more than their mean."
        )
    if not found.secure:
        process.say("The noise is repeatable: this protects nobody, use it for research only.")


def _pairs(texts: list[str], records: int) -> np.ndarray:
    """Return the pairs that are asked for [pairs, 2], all of them if none is named."""
    if not texts:
        return np.array(list(itertools.combinations(range(records), 2)))
    try:
        found = [[int(part) for part in text.split(",")] for text in texts]
        if any(len(pair) != 2 for pair in found):
            raise ValueError
    except ValueError:
        raise ValueError("A pair is two numbers of records, such as 3,17.") from None
    return check_pairs(np.array(found), records)


def _read(arguments: argparse.Namespace) -> Ratings:
    """Read the ratings; what is wrong with them is told without a value of theirs."""
    path = pathlib.Path(arguments.ratings)
    if not path.is_file():
        raise ValueError(f"There is no file {path}: check the path.")
    with path.open(encoding="utf-8", newline="") as file:
        head, *lines = [*filter(None, csv.reader(file))] or [[]]
    if [word.strip() for word in head] != _COLUMNS:
        raise ValueError(f"The first line of {path} must be {','.join(_COLUMNS)}.")
    try:
        table = np.array(lines, np.float64).reshape(len(lines), 3)
        records, items = table[:, :2].T.astype(np.int64)
        if (table[:, :2] != np.stack([records, items], axis=1)).any():
            raise ValueError("A number of a record or an item is not whole.")
    except ValueError:
        raise ValueError(
            f"A line of {path} is not two whole numbers from 0, record and item, and a rating."
        ) from None
    shape = (arguments.records, arguments.items)
    return Ratings(records, items, table[:, 2], shape, _scale(arguments.scale))


def _scale(text: str | None) -> Any:
    """Return the least and the largest rating."""
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise ValueError("--scale must be the least and the largest rating, such as 1,5.") from None
    return low, high
