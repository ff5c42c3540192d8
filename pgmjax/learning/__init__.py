"""Queries as training examples: their choice and encoding, the learners, and bounds on their error.

Everything here is chosen without data or computed from released noisy answers. `mechanisms.mldp` measures
the training queries and trains, `mechanisms.mldp_similarity` releases noisy similarities of ratings
(`privacy.ratings`), and `mechanisms.online_weights` answers query after query.

- `training_set`: the training queries. `encodings` turns them into vectors; `queries.random` draws some.
- `base`: the learner interface. `linear`, `mlp` and `sklearn` hold the learners, `learners` their names.
- `predictor`: trains, chooses among learners, answers fresh queries, and bounds their error.

A learner is one file with one frozen dataclass and a line in `learners`; contract tests run over them.
`learners.as_learner` makes one from a name, a scikit-learn regressor or the output of `Learner.to_dict`.
"""

from __future__ import annotations

from pgmjax._internal import migration
from pgmjax.learning.base import Learner, NotDescribedError
from pgmjax.learning.linear import GaussianBasis, Linear, Ridge
from pgmjax.learning.mlp import MLP
from pgmjax.learning.predictor import Predictor, learn
from pgmjax.learning.sklearn import SklearnLearner

__all__ = [
    "MLP",
    "GaussianBasis",
    "Learner",
    "Linear",
    "NotDescribedError",
    "Predictor",
    "Ridge",
    "SklearnLearner",
    "learn",
]

migration.answer(globals())
