"""Solvers: convex minimisation over the marginals of a model, with one common loop.

`objective` is what they minimise, a loss with its terms, and the interface of a solver; `loop` runs a single
fit, `batch` many of one structure at once, `stopping` is the stopping rule. The solvers are `mirror_descent`
in three forms, the accelerated one the default, and `lbfgs`; `newton` goes on for the default where a small
model on the host has not converged.
"""

from pgmjax._internal import checks, migration
from pgmjax.estimation.solvers.lbfgs import LBFGS
from pgmjax.estimation.solvers.mirror_descent import Accelerated, DualAveraging, MirrorDescent
from pgmjax.estimation.solvers.objective import Solver

__all__ = ["DualAveraging"]

_BY_NAME = {
    "accelerated": Accelerated,
    "mirror_descent": MirrorDescent,
    "dual_averaging": DualAveraging,
    "lbfgs": LBFGS,
}


def names() -> tuple[str, ...]:
    """Return the names that `Estimator(solver=...)` accepts besides `auto`."""
    return tuple(_BY_NAME)


def build(solver: str | Solver) -> Solver:
    """Return a solver by name (`auto` is the accelerated one), or the given solver itself.

    Raises:
        TypeError: not a solver.
        ValueError: unknown name.
    """
    if not isinstance(solver, str):
        if isinstance(solver, type) or not hasattr(solver, "step"):
            raise TypeError(
                "solver must be a name or a solver such as DualAveraging(lipschitz=2), got "
                f"{type(solver).__name__}; measurements are given to Estimator().fit(domain, measurements)."
            )
        return solver
    name = checks.choice("solver", solver, ("auto", *_BY_NAME), "a Solver")
    return _BY_NAME["accelerated" if name == "auto" else name]()


__all__ += ["Solver"]

migration.answer(globals())
