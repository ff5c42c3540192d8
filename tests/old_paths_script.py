"""A script as a user of 0.1.0 wrote it; `test_old_paths.py` runs it, and looks at what Python says of it.

A line that ends in the comment `says NAME` warns of that name, once; no other line does.
"""
# ruff: noqa: F403, F405, I001

from pgmjax.estimate import Estimator  # says pgmjax.estimate.Estimator
from pgmjax.estimate import Estimator as again
import pickle
import warnings

import old_paths_everything
import pgmjax as pj
import pgmjax.history.posterior
import pgmjax.losses.build
import pgmjax.ops.log_matmul_exp
import pgmjax.plan.junction_tree as tree
from pgmjax import companion
from pgmjax.cli.mechanisms import run  # says pgmjax.cli.mechanisms.run
from pgmjax.companion import Channel  # says pgmjax.companion.Channel
from pgmjax.companion.channel import Channel as channel  # says pgmjax.companion.channel.Channel
from pgmjax.descent import NEAR  # says pgmjax.descent.NEAR
from pgmjax.history.kernel import kernel  # says pgmjax.history.kernel.kernel
from pgmjax.history.posterior import posterior  # says pgmjax.history.posterior.posterior
from pgmjax.losses import L2, build
from pgmjax.model import GraphicalModel  # says pgmjax.model.GraphicalModel
from pgmjax.multipliers import PATIENCE  # says pgmjax.multipliers.PATIENCE
from pgmjax.ops import log_matmul_exp  # says pgmjax.ops.log_matmul_exp
from pgmjax.oracles import ConvexBP
from pgmjax.oracles.choose import HOST_BYTES  # says pgmjax.oracles.choose.HOST_BYTES
from pgmjax.queries import quantise
from pgmjax.relation import *  # says pgmjax.relation.Relation
from pgmjax.solvers import LBFGS
from pgmjax.strategies import strategy
from pgmjax.workloads import union  # says pgmjax.workloads.union


def blue():
    return pj.history.blue.Blue  # says pgmjax.history.blue.Blue


laplace = pj.privacy.events.Laplace  # says pgmjax.privacy.events.Laplace
gaussian = pj.privacy.Gaussian  # says pgmjax.privacy.Gaussian
domain = pickle.loads(b"cpgmjax.domain\nDomain\n.")  # says pgmjax.domain.Domain
junction_tree = tree.JunctionTree  # says pgmjax.plan.junction_tree.JunctionTree
region_oracle = pj.oracles.regions.RegionOracle  # says pgmjax.oracles.regions.RegionOracle
assert Estimator is again is pj.Estimator and Relation is pj.Relation and domain is pj.Domain
assert (
    Channel is channel is companion.Channel is pj.local.Channel
    and blue() is blue() is pj.history.BestLinearUnbiased
)
assert GraphicalModel is pj.GraphicalModel and union == pj.Workload.union
assert laplace is pj.privacy.LaplaceEvent and gaussian is pj.privacy.GaussianEvent
assert posterior is pj.history.posterior and kernel is pj.history.kernel and log_matmul_exp.__name__
assert ConvexBP is pj.oracles.ConvexBP and L2 is pj.losses.L2 and LBFGS is pj.solvers.LBFGS
assert build is pj.losses.build and quantise is pj.queries.quantise and issubclass(ConvexBP, region_oracle)
assert callable(run) and callable(strategy) and NEAR == 100 and PATIENCE == 4 and HOST_BYTES > 0
assert junction_tree.__module__ == "pgmjax.inference.plan.junction_tree"
assert {"union", "of_blocks", "Workload"} <= set(dir(pj.workloads)) and "grid" in dir(companion)
for statement in (
    "import pgmjax.nothing",
    "import pgmjax.plan.nothing",
    "from pgmjax.companion import nothing",
    "from pgmjax.estimate import nothing",
    "from pgmjax.model import nothing",
    "from pgmjax.descent import descend",
    "from pgmjax.mixture.descent import descend",
    "from pgmjax.solvers.loop import solve",
    "from pgmjax.solvers.loop import solving",
    "from pgmjax.task import Task",
):
    try:
        exec(statement)
    except ImportError:
        continue
    raise AssertionError(f"{statement} works")
assert (
    not hasattr(pj, "nothing") and not hasattr(pj.companion, "nothing") and not hasattr(pj.privacy, "nothing")
)
kept, pj.estimation.estimator.Estimator = pj.estimation.estimator.Estimator, None  # patched where it is now
assert pgmjax.estimate.Estimator is None
pj.estimation.estimator.Estimator = kept

warnings.simplefilter("ignore")
old_paths_everything.main(old_paths_everything.OLD[::-1], old_paths_everything.by_attribute)
