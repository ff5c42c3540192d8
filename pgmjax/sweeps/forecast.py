"""What a group of trials will take of memory, said before it starts; no data is touched."""

from __future__ import annotations

import dataclasses

from pgmjax import mechanisms
from pgmjax.data.domain import Domain
from pgmjax.estimation import batch
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.forecast import ModelTooLargeError, readable_bytes
from pgmjax.sweeps.cells import Group

_ANSWER_BYTES = 4 * 8  # of each answer and cell: true, ours, their distance, a marginal


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Memory of a group.

    Attributes:
        bytes: at the peak, beside the table; None where the mechanism limits the model by itself.
        refused: why it will not be started, or "".
    """

    bytes: int | None
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return "refused: too large"
        return "limited by the mechanism" if self.bytes is None else readable_bytes(self.bytes)


def measures_once(group: Group) -> bool:
    """Whether what the mechanism measures does not depend on the records, so that trials make one batch."""
    return hasattr(mechanisms.names()[group.mechanism.name], "measure")


def forecast(group: Group, domain: Domain) -> Forecast:
    """Return what a group will take, or why it is refused.

    Mechanisms that choose what to measure measure a part of the workload: for them the figure is that of
    the whole.

    Args:
        group: the trials.
        domain: of the table.
    """
    estimator = Estimator(**group.estimator)
    cliques = [entry.clique for entry in group.asked.entries]
    if group.mechanism.options.get("strategy") == "kron":
        cliques = [tuple(sorted({name for clique in cliques for name in clique}))]
    answers = group.asked.num_queries(domain) + sum(map(domain.size, group.asked.cliques))
    try:
        plan = estimator.plan(domain, cliques)
        inputs = plan.oracle.forecast.inputs
        one = plan.peak_bytes
        if measures_once(group):
            slots, threads = batch.slots_and_threads(plan, group.trials, None)
            one = slots * threads * (one + plan.copies * inputs * plan.itemsize)
            one += group.trials * batch.ROW_BYTES * inputs
    except ModelTooLargeError as error:
        return Forecast(None, str(error) if measures_once(group) else "")
    return Forecast(one + _ANSWER_BYTES * answers)
