"""Learning from a history of noisy answers, after the budget that bought them is spent.

`History` holds linear queries with their noisy answers; `Rows` are the queries in factored form,
`kernel` their inner products under a `ProductPrior`, `builders` makes queries. Everything here is
post-processing of released numbers.
"""

from pgmjax.history import builders
from pgmjax.history.answers import Answers
from pgmjax.history.blue import Blue
from pgmjax.history.claims import Claim, Verdict
from pgmjax.history.consistent import ConsistentAnswers, consistent_answers
from pgmjax.history.coordinates import NotEstimableError
from pgmjax.history.costs import cell_costs, least_epsilon, sensitivities, system_cost
from pgmjax.history.device_kernel import device_kernel
from pgmjax.history.history import History
from pgmjax.history.inference import Inference, JointInference
from pgmjax.history.inference_control import DeclinedError, InferenceControl
from pgmjax.history.kernel import kernel, kernel_blocks
from pgmjax.history.kernel_pca import KernelPCA
from pgmjax.history.kernel_product import KernelProduct
from pgmjax.history.law_of import law_of
from pgmjax.history.max_entropy import MaxEntropy, MaxEntropyFit
from pgmjax.history.noise_laws import Gaussian, Laplace
from pgmjax.history.noise_sum import NoiseSum
from pgmjax.history.norms import squared_norms
from pgmjax.history.posterior import Posterior, posterior
from pgmjax.history.prior import ProductPrior
from pgmjax.history.ridge import Ridge
from pgmjax.history.rows import Rows
from pgmjax.history.session import Session
from pgmjax.history.session_answer import SessionAnswer
from pgmjax.history.validation import AlphaChoice, CrossValidation

__all__ = [
    "AlphaChoice",
    "Answers",
    "Blue",
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
    "Laplace",
    "MaxEntropy",
    "MaxEntropyFit",
    "NoiseSum",
    "NotEstimableError",
    "Posterior",
    "ProductPrior",
    "Ridge",
    "Rows",
    "Session",
    "SessionAnswer",
    "Verdict",
    "builders",
    "cell_costs",
    "consistent_answers",
    "device_kernel",
    "kernel",
    "kernel_blocks",
    "law_of",
    "least_epsilon",
    "posterior",
    "sensitivities",
    "squared_norms",
    "system_cost",
]
