"""Learning from a history of noisy answers, after the budget for them has been spent.

- `history`: linear queries with their noisy answers, also on disk. `rows`: the queries in factored form.
  `builders`: builds queries.
- `prior`: product priors of a record, public or measured with budget.
- `estimable`: bounds on what remains of a query after subtracting a combination of others.
- `bayes`: unbiased estimates, with the distribution of their error and posteriors.
- `kernel`: inner products of queries under a `ProductPrior`, ridge regression and kernel PCA.
- `max_entropy`: one distribution from all answers.
- `session`: queries answered from past answers, or by a new charge.

All of this is post-processing of released numbers, except that `Session` and `ProductPrior.bought` spend
budget.
"""

from pgmjax._internal import migration
from pgmjax.history import builders
from pgmjax.history.bayes.blue import BestLinearUnbiased, NotEstimableError
from pgmjax.history.bayes.consistent import DeclinedError, InferenceControl
from pgmjax.history.bayes.inference import Claim
from pgmjax.history.bayes.posterior import posterior
from pgmjax.history.history import History
from pgmjax.history.kernel.inner_products import KernelProduct, kernel
from pgmjax.history.kernel.pca import KernelPCA
from pgmjax.history.kernel.ridge import CrossValidation, KernelRidge
from pgmjax.history.max_entropy.fit import MaxEntropy
from pgmjax.history.prior import ProductPrior
from pgmjax.history.session.session import Session

__all__ = [
    "BestLinearUnbiased",
    "Claim",
    "CrossValidation",
    "DeclinedError",
    "History",
    "InferenceControl",
    "KernelPCA",
    "KernelProduct",
    "KernelRidge",
    "MaxEntropy",
    "NotEstimableError",
    "ProductPrior",
    "Session",
    "builders",
    "kernel",
    "posterior",
]

migration.answer(globals())
