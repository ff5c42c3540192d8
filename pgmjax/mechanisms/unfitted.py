"""What a mechanism has measured and paid for, before a model is fitted to it: one fit, or many in a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pgmjax._internal import checks
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import Settings, paid_for
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class Unfitted:
    """Noisy answers that are paid for, with all that a release needs but the model.

    Mechanisms whose measured queries do not depend on the records hand it out by `measure`, so that many
    runs (trials, budgets) can be fitted together by `release_together`.

    Attributes:
        mechanism: its command-line name.
        settings: the privacy parameters.
        table: what was measured.
        workload: what was asked.
        measurements: the noisy answers.
        estimator: how the model is to be fitted.
        answered_by: how the release answers its workload.
    """

    mechanism: str
    settings: Settings
    table: PrivateTable
    workload: Workload
    measurements: tuple[LinearMeasurement, ...]
    estimator: Estimator
    answered_by: str = "engine"

    def release(self, fit: Fit | None = None) -> Release:
        """Return the release.

        Args:
            fit: one to these answers that is there already; None makes one.

        Raises:
            FitError: the fit failed; it carries the measurements, which are paid for.
        """
        made = self.settings.release(
            self.mechanism, self.table, self.workload, self.measurements, self.estimator, fit
        )
        return dataclasses.replace(made, answered_by=self.answered_by)


def release_together(rows: Sequence[Unfitted]) -> list[Release]:
    """Fit the answers of many runs in one batch and return their releases, in the same order.

    Args:
        rows: runs over one domain that measured the same queries; values and noise are their own.

    Raises:
        ValueError: no run, or runs that did not measure the same queries.
        FitError: the batch failed; it carries the measurements of all runs, which are paid for.

    Example:
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0, 1, 1]})
        >>> plain = pj.mechanisms.Marginals(epsilon=1, relation=pj.Relation.REPLACE_ONE)
        >>> runs = [plain.measure(data, pj.Workload([["a"]])) for _ in range(3)]
        >>> [release.model.total for release in release_together(runs)]
        [3.0, 3.0, 3.0]
    """
    several = checks.several("rows", rows, "Unfitted")
    if not several:
        raise ValueError("a batch needs at least one run, got none.")
    first = several[0]
    totals = [row.table.public_total() for row in several]
    public = [total for total in totals if total is not None]
    with paid_for([measurement for row in several for measurement in row.measurements]):
        fits = first.estimator.fit_batch(
            first.table.domain,
            [row.measurements for row in several],
            totals=public if len(public) == len(several) else None,
        )
    return [row.release(fit) for row, fit in zip(several, fits, strict=True)]
