"""Small fits with an interior optimum, and finite differences."""

import jax
import numpy as np

import pgmjax as pj
from pgmjax.gradients import DifferentiableFit
from pgmjax.queries import identity, kronecker, marginal, prefix

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": 3})
TOTAL = 1000.0
STRUCTURES = {
    "chain": [marginal(("a", "b")), marginal(("b", "c"))],
    "cycle": [marginal(("a", "b")), marginal(("c", "b")), marginal(("a", "c"))],
    "star": [marginal(("b", "a")), kronecker({"b": identity(), "c": prefix()}), kronecker({"a": prefix()})],
}
ASKED = [("c", "a"), ("b",)]


def model(seed=0):
    """A model over a cycle, far from empty cells."""
    generator = np.random.default_rng(seed)
    cliques = [("a", "b"), ("b", "c"), ("a", "c")]
    tables = {clique: 0.4 * generator.normal(size=DOMAIN.shape_of(clique)) for clique in cliques}
    return pj.GraphicalModel.from_potentials(DOMAIN, tables, TOTAL)


def measurements(queries, seed=0):
    """Noisy answers, every second with a deviation a row."""
    generator = np.random.default_rng(seed)
    truth, found = model(seed), []
    for number, query in enumerate(queries):
        answer = np.ravel(truth.answer(query))
        stddev = 4.0 if number % 2 == 0 else generator.uniform(2, 6, answer.size)
        found.append(pj.LinearMeasurement(query.clique, answer + stddev * generator.normal(size=answer.size),
                                          stddev, query))  # fmt: skip
    return found


def prior():
    """A prior that is no part of what is measured: over two pairs."""
    generator = np.random.default_rng(7)
    tables = {clique: 0.3 * generator.normal(size=DOMAIN.shape_of(clique)) for clique in [("c", "a"), ("b",)]}
    return pj.GraphicalModel.from_potentials(DOMAIN, tables)


def fit_of(name, method="implicit", prior_weight=20.0, max_steps=None, with_prior=True):
    """A fit of one of the structures."""
    return DifferentiableFit(
        DOMAIN, measurements(STRUCTURES[name]), ASKED, TOTAL, prior() if with_prior else None, prior_weight,
        method=method, max_steps=max_steps,
    )  # fmt: skip


def objective(answers):
    """A function of the answers that is not linear."""
    weights = np.random.default_rng(1).normal(size=(3, 3))
    return (answers[0] * weights).sum() + answers[1][0] ** 2 / 100


def differences(fit, relative=1e-5):
    """Central finite differences of the objective by every number, as a list of flat arrays."""
    leaves, tree = jax.tree.flatten(fit.parameters)
    found = []
    for at, leaf in enumerate(leaves):
        if leaf is fit.parameters.prior_weight and leaf == 0:  # below 0 there is no fit
            found.append(np.full(1, np.nan))
            continue
        slopes = np.zeros(leaf.size)
        for entry in range(leaf.size):
            size = relative * max(1.0, abs(leaf.reshape(-1)[entry]))
            ends = []
            for sign in (1, -1):
                moved = np.array(leaf, np.float64)
                moved.reshape(-1)[entry] += sign * size
                given = jax.tree.unflatten(tree, [*leaves[:at], moved, *leaves[at + 1 :]])
                ends.append(float(objective(fit.answers(given))))
            slopes[entry] = (ends[0] - ends[1]) / (2 * size)
        found.append(slopes)
    return found
