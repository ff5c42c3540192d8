"""Local differential privacy: perturbed tables, and unbiased estimators on them.

Each record is perturbed on its own by randomised response with a public distribution. A `PerturbedTable` is a
release: its answers, in the order of the table's rows or sorted, may be published. `PerturbedTable.marginals`
gives unbiased marginals with their covariance, and `PerturbedTable.measurements` gives them as measurements
for the engine. The other estimates here are unbiased too; each comes with its exact variance, or an unbiased
estimate of it, and with bounds that hold for every table. All of this is post-processing and costs no
budget.

- `table`: a perturbed table. `respondent`: answers of one record, and their collector. `codes`: codes of a
  table and their universe. `channel`: the means and variances of a response,
  and lower and upper bounds on the error.
- `marginals`: unbiased counts. `conditions`: shares of the records that satisfy conditions. `statistical`:
  any statistical query, also one function per group of rows. `continuous`: attributes in the unit cube.
  `graphs`: cuts of a graph.
- `answers`: answers with their error. `proper`: the nearest achievable value.

Elsewhere: how a record answers and what that costs (`pgmjax.privacy.response`), the answers of a table
(`pgmjax.privacy.responding`), the mechanism (`pgmjax.mechanisms.randomized_response`), the commands
`perturb`, `respond` and `collect` (`pgmjax.cli.perturb`).
"""

from pgmjax._internal import migration
from pgmjax.local.answers import UselessAnswerError
from pgmjax.local.channel import Channel, predicted_stddev
from pgmjax.local.codes import PerturbedCodes, Universe
from pgmjax.local.conditions import answer_cells, answer_conditions
from pgmjax.local.continuous import answer_lipschitz, best_grid
from pgmjax.local.graphs import PerturbedGraph, VertexPairs
from pgmjax.local.marginals import marginals_of
from pgmjax.local.proper import ProperEstimator
from pgmjax.local.respondent import collect, respond
from pgmjax.local.statistical import answer_queries, answer_rows, group_histograms
from pgmjax.local.table import PerturbedTable, load

__all__ = [
    "Channel",
    "PerturbedCodes",
    "PerturbedGraph",
    "PerturbedTable",
    "ProperEstimator",
    "Universe",
    "UselessAnswerError",
    "VertexPairs",
    "answer_cells",
    "answer_conditions",
    "answer_lipschitz",
    "answer_queries",
    "answer_rows",
    "best_grid",
    "collect",
    "group_histograms",
    "load",
    "marginals_of",
    "predicted_stddev",
    "respond",
]

migration.answer(globals())
