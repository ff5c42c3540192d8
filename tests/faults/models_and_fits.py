"""Seeded faults in models and what learns them: fits, strategies, error bars and histories."""

from source import Fault

MODELS = (
    Fault(
        "a conditioned model keeps the whole total",
        "model",
        ("        total = self.total * math.exp(log_share)\n        if not math.isfinite(log_share):"),
        ("        total = self.total\n        if not math.isfinite(log_share):"),
    ),
    Fault(
        "a conditional sums over what is given",
        "model",
        "axes = tuple(range(len(given), table.ndim))",
        "axes = tuple(range(len(given)))",
    ),
    Fault(
        "rows of later pieces are drawn for the groups behind them",
        "sampling",
        "low = ends[first - 1] if first else 0",
        "low = ends[first] if first else 0",
    ),
    Fault(
        "rounded rows have no random start",
        "rounding",
        "start = np.floor((generator.random() + GOLDEN * walks) % 1 * (1 << 20)) / (1 << 20)",
        "start = np.zeros(len(counts))",
    ),
    Fault(
        "completion draws for rows that are impossible",
        "completion",
        ("    _refuse(int((~possible[group]).sum()))\n"),
        "",
    ),
    Fault(
        "the rare codes are those below a multiple of the variance",
        "compression",
        "_rare(counts[name], threshold * weights[name] ** -0.5)",
        "_rare(counts[name], threshold / weights[name])",
    ),
)

FITS = (
    Fault(
        "the gap of a fit forgets the prior's part",
        "fitting",
        "gap = max(loss + beside - max(solution.lower_bound, least), 0.0)",
        "gap = max(loss - max(solution.lower_bound, least), 0.0)",
    ),
    Fault(
        "the bound of a smoothed loss is raised by its slack",
        "descent",
        "loss, bound = result.loss, result.loss - result.gap",
        "loss, bound = result.loss, result.loss + slack - result.gap",
    ),
    Fault(
        "the certificate forgets the prior's weight",
        "certificate",
        "gap = dot(centred, point.marginals) + weight * (best - own + spent)",
        "gap = dot(centred, point.marginals) + best - own + spent",
    ),
    Fault(
        "multipliers move away from the fixed marginals",
        "descent",
        "multipliers=host.multipliers + host.penalty_parameter * residual",
        "multipliers=host.multipliers - host.penalty_parameter * residual",
    ),
    Fault(
        "all rows of a batch take the first row's total",
        "batch",
        "return [estimate_total(domain, row)[0] for row in rows]",
        "return [estimate_total(domain, rows[0])[0]] * len(rows)",
    ),
    Fault(
        "a warm start counts the potential it replaces twice",
        "warm start",
        ("    tables[number] = np.zeros_like(tables[number])\n    try:"),
        "    try:",
    ),
)

LOSSES = (
    Fault(
        "the slack of smoothed L1 is half of what it may be",
        "losses",
        "return self.linear.layout.rows * self.delta / 2",
        "return self.linear.layout.rows * self.delta / 4",
    ),
    Fault(
        "merged answers add twice the loss between them",
        "losses",
        "rest += 0.5 * float(np.sum(squares * (y - mean) ** 2))",
        "rest += float(np.sum(squares * (y - mean) ** 2))",
    ),
)

SOLVERS = (
    Fault(
        "the gap looks for the worst assignment",
        "solvers",
        "best = self.oracle.maximum_flat(possible.all(-centred))",
        "best = self.oracle.maximum_flat(possible.all(centred))",
    ),
    Fault(
        "the gap takes a prior's tables for costs",
        "solvers",
        "possible = self if self.fixed is None else dataclasses.replace(self, fixed=self.support())",
        "possible = self",
    ),
    Fault(
        "what the host sets to zero is not counted",
        "oracles",
        "self.error += math.exp(min(math.log(lost) - kept, 0.0))",
        "self.error += 0.0",
    ),
    Fault(
        "averaged gradients take steps of half the curvature",
        "solvers",
        "size = t * (t + 1) / (4 * xp.asarray(constant, dtype))",
        "size = t * (t + 1) / (2 * xp.asarray(constant, dtype))",
    ),
)

CONSTRAINTS = (
    Fault(
        "feasibility is not asked of zeros together",
        "constraints",
        ("    if not np.isfinite(best + scale):\n        return False\n    targets"),
        "    targets",
    ),
    Fault(
        "proportional fitting looks at the last marginal only",
        "constraints",
        ("            distance = max(distance, off)\n"),
        ("            distance = off\n"),
    ),
)

STRATEGIES = (
    Fault(
        "a Gram matrix counts each pair of terms once",
        "strategies",
        "twice = 1.0 if others is blocks else 2.0",
        "twice = 1.0",
    ),
    Fault(
        "the split of a budget takes the other norm's power",
        "strategies",
        'errors ** (1 / 3 if norm == "l1" else 1 / 2)',
        'errors ** (1 / 2 if norm == "l1" else 1 / 3)',
    ),
    Fault(
        "weighted marginals under L2 share rho by weights, not squares",
        "strategies",
        'shares = weights[list(places)] ** (1 if norm == "l1" else 2)',
        "shares = weights[list(places)]",
    ),
)

UNCERTAINTY = (
    Fault(
        "the bootstrap forgets its bias",
        "uncertainty",
        "bias = max(float(np.mean(excess[group])), 0.0)",
        "bias = 0.0",
    ),
    Fault(
        "redrawn Laplace noise takes the deviation for the scale",
        "measurements",
        "return cls(float(stddev / np.sqrt(2)))",
        "return cls(float(stddev))",
    ),
    Fault(
        "what is known without noise is left out of least squares",
        "uncertainty",
        "rest = self.answered.values - self.answered.ask(self.known.worth)",
        "rest = self.answered.values",
    ),
)

REGIONS = (
    Fault(
        "the curvature of a region is not divided by its weight",
        "regions",
        'group, total, "float64").lipschitz() / weights[number]',
        'group, total, "float64").lipschitz()',
    ),
)

MIXTURE = (
    Fault(
        "the first code counts as unknown in a row's probability",
        "mixture",
        "joint = joint + np.where(codes[:, None] >= 0, logs, 0.0)",
        "joint = joint + np.where(codes[:, None] > 0, logs, 0.0)",
    ),
    Fault(
        "of several starts the worst end is kept",
        "mixture",
        "if best is None or end.loss < best.loss or math.isnan(best.loss):",
        "if best is None or end.loss > best.loss or math.isnan(best.loss):",
    ),
)

HISTORY = (
    Fault(
        "an appended answer is not divided by its noise",
        "history",
        "information = self.information.widened(len(entries)).append(entries / distribution.stddev)",
        "information = self.information.widened(len(entries)).append(entries)",
    ),
    Fault(
        "a new direction enters the inverse with the wrong power of its length",
        "history",
        "inner = (1 + row @ seen) / square**2",
        "inner = (1 + row @ seen) / square",
    ),
    Fault(
        "costs of queries that fit no table are not added up",
        "history",
        "return dataclasses.replace(self, rest=self.rest + rate * sensitivity)",
        "return dataclasses.replace(self, rest=max(self.rest, rate * sensitivity))",
    ),
    Fault(
        "the mass a convolution cuts off counts once for equal noises",
        "history",
        "kept *= masses.sum() ** count",
        "kept *= masses.sum()",
    ),
    Fault(
        "a Metropolis step weighs the old value against the new one",
        "history",
        "change = change + flat[number * size + proposed] - flat[number * size + now]",
        "change = change + flat[number * size + now] - flat[number * size + proposed]",
    ),
    Fault(
        "a kernel estimate of a known total keeps the mean in its distances",
        "history",
        "rest = norms if self.total is None else norms - means**2",
        "rest = norms",
    ),
    Fault(
        "the larger root of an inverse Gaussian draw is taken too often",
        "history",
        "return jnp.where(uniform * (mean + smaller) <= mean, smaller, mean * mean / smaller)",
        "return jnp.where(uniform * (mean + smaller) <= smaller, smaller, mean * mean / smaller)",
    ),
    Fault(
        "a posterior mean of counts forgets the noise's scale",
        "history",
        "(2 * values + scale * fall) / (2 - fall)",
        "(2 * values + fall) / (2 - fall)",
    ),
    Fault(
        "a session tells the longer of two intervals",
        "history",
        "if other[1] - other[0] < ends[1] - ends[0]:",
        "if other[1] - other[0] > ends[1] - ends[0]:",
    ),
    Fault(
        "a dual point leaves the penalty out of what it has reached",
        "history",
        "primal=divergence + self.penalty.value(residuals),",
        "primal=divergence,",
    ),
)

FAULTS = (
    *MODELS,
    *FITS,
    *LOSSES,
    *SOLVERS,
    *CONSTRAINTS,
    *STRATEGIES,
    *UNCERTAINTY,
    *REGIONS,
    *MIXTURE,
    *HISTORY,
)
