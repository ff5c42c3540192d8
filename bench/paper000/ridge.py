"""All 29,570 two-way cells of the nine attributes at once: the ridge form in time and memory.

    PGMJAX_DATA=... python bench/paper000/ridge.py [--method cholesky] [--attributes 9] [--alpha A]

Every cell has Laplace noise of scale 36, epsilon 1 under add/remove for all pairs, as in section 5.2.
Alpha is chosen by leave-one-out on 2,000 of the cells, unless it is given. Prints a line of JSON.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import table
from inputs import history, prior, rmse

from pgmjax.history import CrossValidation, History, KernelPCA, KernelRidge, ProductPrior
from pgmjax.queries import Code, Product, marginal, point

import harness  # isort: skip  # found by `inputs`
from harness import timed  # isort: skip

SCALE = 36.0
CHOSEN = 2_000


def chosen_alpha(past: History, belief: ProductPrior, total: int) -> float:
    """The alpha that leave-one-out chooses on some of the rows."""
    some = np.sort(np.random.default_rng(0).permutation(past.num_rows)[:CHOSEN])
    pca = KernelPCA.of(part(past, some), belief, total)
    return CrossValidation.leave_one_out(pca).choose().alpha


def part(past: History, rows: np.ndarray) -> History:
    """A history of some rows, asked as cells."""
    queries = [cell for query in past.queries for cell in cells(query.clique)]
    values, stddevs = past.values[rows], past.stddevs[rows]
    return History.from_answers(past.domain, [queries[row] for row in rows], values, stddev=stddevs)


def cells(clique: tuple[str, ...]) -> list:
    """The cells of a pair, row-major, a query each."""
    sizes = [range(table.SIZES[name]) for name in clique]
    return [
        Product({n: point(Code(code)) for n, code in zip(clique, codes, strict=True)})
        for codes in itertools.product(*sizes)
    ]


def main() -> None:
    """Solve for the two-way cells and print what it took."""
    options = harness.parser(__doc__)
    options.add_argument("--method", choices=("cholesky", "conjugate-gradients"), default="cholesky")
    options.add_argument("--attributes", type=int, default=len(table.SIZES), help="the first so many")
    options.add_argument("--alpha", type=float, default=None)
    options.add_argument("--tolerance", type=float, default=1e-6, help="of conjugate gradients")
    options.add_argument("--dry", action="store_true", help="keep no line")
    chosen = options.parse_args()
    data = table.dataset()
    names = list(table.SIZES)[: chosen.attributes]
    past, truth = history([marginal(pair) for pair in itertools.combinations(names, 2)], data, SCALE, seed=1)
    belief = prior(data)
    alpha, choosing = chosen.alpha, None
    if alpha is None:
        alpha, choosing = timed(lambda: chosen_alpha(past, belief, table.ROWS))
        harness.say(f"alpha {alpha:,.0f}, chosen in {choosing['wall']:.0f} s")
    settings = {"method": chosen.method, "tolerance": chosen.tolerance}
    solved, fitting = timed(lambda: KernelRidge.fit(past, alpha, belief, table.ROWS, **settings))
    harness.say(f"{past.num_rows:,} rows solved in {fitting['wall']:.0f} s, {solved.steps} steps")
    every = max(1, past.num_rows // (500 if chosen.method == "cholesky" else 5))
    answers, answering = timed(lambda: solved.answer(past.rows.take(slice(None, None, every))))
    line = {
        "rows": past.num_rows,
        "method": chosen.method,
        "alpha": alpha,
        "choosing": choosing,
        "fitting": fitting,
        "answering_with_stddevs": {"queries": len(answers.values), **answering},
        "steps": solved.steps,
        "residual": solved.residual,
        "peak_gb": harness.peak_mb() * 2**20 / 1e9,
        "rmse": rmse(solved.fitted(), truth),
        "rmse_raw": rmse(past.values, truth),
        "largest_difference_of_fitted": float(np.abs(answers.values - solved.fitted()[::every]).max()),
        "median_stddev": float(np.median(answers.stddevs)),
    }
    if not chosen.dry:
        harness.keep("paper000-ridge", line)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
