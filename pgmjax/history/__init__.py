"""Learning from a history of noisy answers, after the budget for them has been spent.

- `history`: linear queries with their noisy answers. `rows`: the queries in factored form. `builders`: builds
  queries. `storage`: histories on disk.
- `prior`: product priors of a record, public or measured with budget.
- `answers`: answers computed from a history. `noise_covariance`: the covariance of its noise.
- `estimable`: bounds on what remains of a query after subtracting a combination of others.
- `bayes`: unbiased estimates, with the distribution of their error and posteriors.
- `kernel`: inner products of queries under a `ProductPrior`, ridge regression and kernel PCA.
- `max_entropy`: one distribution from all answers.
- `session`: queries answered from past answers, or by a new charge.

All of this is post-processing of released numbers, except that `Session` and `ProductPrior.bought` spend
budget.
"""

from pgmjax.history import builders
from pgmjax.history.answers import Answers
from pgmjax.history.bayes.blue import BestLinearUnbiased
from pgmjax.history.bayes.choose import distribution_of
from pgmjax.history.bayes.consistent import (
    ConsistentAnswers,
    DeclinedError,
    InferenceControl,
    consistent_answers,
)
from pgmjax.history.bayes.coordinates import NotEstimableError
from pgmjax.history.bayes.inference import Claim, Inference, JointInference, Verdict
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.history.bayes.posterior import Posterior, posterior
from pgmjax.history.history import History
from pgmjax.history.kernel.cross_validation import AlphaChoice, CrossValidation
from pgmjax.history.kernel.device import device_kernel
from pgmjax.history.kernel.inner_products import kernel, kernel_blocks, squared_norms
from pgmjax.history.kernel.pca import KernelPCA
from pgmjax.history.kernel.product import KernelProduct
from pgmjax.history.kernel.ridge import KernelRidge
from pgmjax.history.max_entropy.fit import MaxEntropy, MaxEntropyFit
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows
from pgmjax.history.session.costs import cell_costs, least_epsilon, sensitivities, system_cost
from pgmjax.history.session.session import Session
from pgmjax.history.session.state import SessionAnswer
from pgmjax.measurements.noise import Gaussian, Laplace

__all__ = [
    "AlphaChoice",
    "Answers",
    "BestLinearUnbiased",
    "Claim",
    "ConsistentAnswers",
    "CrossValidation",
    "DeclinedError",
    "Gaussian",
    "History",
    "Inference",
    "InferenceControl",
    "JointInference",
    "KernelPCA",
    "KernelProduct",
    "KernelRidge",
    "Laplace",
    "MaxEntropy",
    "MaxEntropyFit",
    "NoiseSum",
    "NotEstimableError",
    "Posterior",
    "ProductPrior",
    "Rows",
    "Session",
    "SessionAnswer",
    "Verdict",
    "builders",
    "cell_costs",
    "consistent_answers",
    "device_kernel",
    "distribution_of",
    "kernel",
    "kernel_blocks",
    "least_epsilon",
    "posterior",
    "sensitivities",
    "squared_norms",
    "system_cost",
]
