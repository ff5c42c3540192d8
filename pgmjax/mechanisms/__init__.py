"""Private mechanisms, from a table and a workload to a release.

A mechanism is one file with one frozen dataclass, a subclass of `Mechanism`, and an entry in `RELEASING` of
`comparison`. It defines its `name` (on the command line), its `summary`, its `plan` and its `execute`, and
accesses the table only through a `privacy.private_table.PrivateTable`. Contract tests run over `names()`.

- `auto`: all marginals where noise and memory allow it, else a choice.
- `marginals` (`MaximumEntropy` too), `hdmm`: measure once. `randomized_response`: each record lies at times.
- `mst`, `aim`, `batch_aim`, `mwem`: select, measure and fit.
- `privbayes`: a Bayesian network.
- `dual_query`: synthetic records, from a game.
- `mldp`: a regressor trained on noisy answers. `mldp_similarity`: the same for the
  similarity of pairs of records with ratings.
- `online_weights`: answers queries as they arrive.
- `comparison`: the list of them, and which one to take, from runs on simulated tables.
- `base`: shared by all mechanisms. `adaptive`: shared by those that select repeatedly. `candidates`: what may
  be chosen, with weights and scores. `run`: requests and runs. `forecast`: what a run is asked for where only
  a number of attributes is given, its time and memory.
"""

from __future__ import annotations

from pgmjax._internal import migration
from pgmjax.data.ratings import Ratings
from pgmjax.mechanisms.aim import AIM
from pgmjax.mechanisms.auto import Auto
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.base import options as options
from pgmjax.mechanisms.batch_aim import BatchAIM
from pgmjax.mechanisms.comparison import RELEASING as RELEASING
from pgmjax.mechanisms.comparison import compare
from pgmjax.mechanisms.comparison import names as names
from pgmjax.mechanisms.dual_query import DualQuery
from pgmjax.mechanisms.hdmm import HDMM
from pgmjax.mechanisms.measure_once import Marginals, MaximumEntropy
from pgmjax.mechanisms.mldp import MLDP
from pgmjax.mechanisms.mldp_similarity import SimilarityMLDP
from pgmjax.mechanisms.mst import MST
from pgmjax.mechanisms.mwem import MWEM
from pgmjax.mechanisms.online_weights import OnlineWeights
from pgmjax.mechanisms.privbayes import PrivBayes
from pgmjax.mechanisms.randomized_response import RandomizedResponse
from pgmjax.mechanisms.run import Request, Run
from pgmjax.release.run_folder import NotKept, OtherRun, RunFolder

__all__ = [
    "AIM",
    "HDMM",
    "MLDP",
    "MST",
    "MWEM",
    "Auto",
    "BatchAIM",
    "DualQuery",
    "Marginals",
    "MaximumEntropy",
    "Mechanism",
    "NotKept",
    "OnlineWeights",
    "OtherRun",
    "PrivBayes",
    "RandomizedResponse",
    "Ratings",
    "Request",
    "Run",
    "RunFolder",
    "SimilarityMLDP",
    "compare",
]

migration.answer(globals())
