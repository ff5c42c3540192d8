"""An audit kit: test that a mechanism keeps its privacy claims, ours or your own.

Four layers, from the cheapest to the most expensive:

- L0, exact: the loss of finite channels, noise distributions and selections, computed without sampling
  (`exact`);
- L1, replay: with the noise frozen, nothing but released numbers may differ between neighbours: of calls in
  `replay`, of a whole mechanism in `mechanism`, by the comparisons in `compare` and the costs in `claims`,
  on made-up neighbours (`mechanism`) or such as `search` finds; and every released number has one draw of its
  own (`draws`);
- L2, goodness of fit: drawn noise follows the claimed distribution (`goodness`);
- L3, black box: a lower bound on epsilon from many runs, a smoke test (`blackbox`; `smoke` for a whole
  mechanism).

`processes` replays whole commands, with their files, output, exit codes and ledger. `primitives` checks the
noise as it is installed, `report` says what was found. Audit on made-up tables: a tape holds exact private
numbers. All of it is testing, not proof.
"""

from pgmjax._internal import migration
from pgmjax.audit.blackbox import LowerBound, audit_blackbox, epsilon_lower_bound, mu_lower_bound
from pgmjax.audit.claims import cost
from pgmjax.audit.compare import differences
from pgmjax.audit.draws import CountingBackend, check_draws
from pgmjax.audit.exact import (
    channel_delta,
    channel_epsilon,
    noise_delta,
    noise_epsilon,
    selection_epsilon,
)
from pgmjax.audit.goodness import Goodness, categorical_fit, goodness_of_fit
from pgmjax.audit.mechanism import AuditCase, neighbours, replay_mechanism
from pgmjax.audit.primitives import AuditFailure, Repetition, repeated
from pgmjax.audit.processes import ProcessCase, audit_processes, replay_process
from pgmjax.audit.replay import (
    CannotAuditError,
    Replayed,
    ReplayedPair,
    check_outcome,
    check_pair,
    check_pairs,
)
from pgmjax.audit.report import MechanismAudit, as_table, audit_mechanism, audit_primitives
from pgmjax.audit.search import LargestLoss, largest_loss
from pgmjax.audit.smoke import NoMeasurementsError, lower_bound
from pgmjax.privacy.tape import NonInterferenceError, Tape

__all__ = [
    "AuditCase",
    "AuditFailure",
    "CannotAuditError",
    "CountingBackend",
    "Goodness",
    "LargestLoss",
    "LowerBound",
    "MechanismAudit",
    "NoMeasurementsError",
    "NonInterferenceError",
    "ProcessCase",
    "Repetition",
    "Replayed",
    "ReplayedPair",
    "Tape",
    "as_table",
    "audit_blackbox",
    "audit_mechanism",
    "audit_primitives",
    "audit_processes",
    "categorical_fit",
    "channel_delta",
    "channel_epsilon",
    "check_draws",
    "check_outcome",
    "check_pair",
    "check_pairs",
    "cost",
    "differences",
    "epsilon_lower_bound",
    "goodness_of_fit",
    "largest_loss",
    "lower_bound",
    "mu_lower_bound",
    "neighbours",
    "noise_delta",
    "noise_epsilon",
    "repeated",
    "replay_mechanism",
    "replay_process",
    "selection_epsilon",
]

migration.answer(globals())
