"""Small faults, one at a time, that the tests of the library should catch.

Each was chosen by reading the source, as a reviewer would fear it, and not because some test is known to
catch it. A fault's text is searched for in the whole source, so it stays when modules move.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A replacement of a piece of source text that occurs exactly once.

    Attributes:
        name: what is wrong with it.
        area: the part of the library it lies in.
        old: the text as it is.
        new: the faulty text.
    """

    name: str
    area: str
    old: str
    new: str


TABLES = (
    Fault(
        "a projected domain keeps the old order of attributes",
        "domain",
        "return Domain({name: self._by_name[name] for name in as_clique(self, clique)})",
        "return Domain({name: a for name, a in self._by_name.items() if name in as_clique(self, clique)})",
    ),
    Fault(
        "cells of large histograms are numbered in 16 bits",
        "counting",
        "dtype = np.dtype(np.uint16 if counts.size < 1 << 16 else np.intp)",
        "dtype = np.dtype(np.uint16 if counts.size < 1 << 18 else np.intp)",
    ),
    Fault(
        "tables over the same attributes are added with inverted axes",
        "clique vectors",
        "clique, table = first, before + table.transpose([clique.index(name) for name in first])",
        "clique, table = first, before + table.transpose([first.index(name) for name in clique])",
    ),
    Fault(
        "a value on the last edge falls behind the last bin",
        "encoding",
        "raw[values == edges[-1]] = len(edges) - 2",
        "raw[values > edges[-1]] = len(edges) - 2",
    ),
    Fault(
        "a single value on an edge falls into the bin below",
        "encoding",
        "return bisect.bisect_right(edges, value) - 1 if edges[0] <= value < edges[-1] else OUTSIDE",
        "return max(bisect.bisect_left(edges, value), 1) - 1 if edges[0] <= value < edges[-1] else OUTSIDE",
    ),
    Fault(
        "texts are digested without their lengths",
        "dataset",
        ("    _size(keyed, len(text))\n    keyed.update(text)"),
        "    keyed.update(text)",
    ),
    Fault(
        "a comparison counts the missing bucket as a number",
        "query text",
        "points: list[float] = list(range(attribute.size - attribute.missing))",
        "points: list[float] = list(range(attribute.size))",
    ),
    Fault(
        "gathered marginals are weighted by standard deviations",
        "measurements",
        "variance = np.square(measurement.row_stddevs()).reshape(full)",
        "variance = measurement.row_stddevs().reshape(full)",
    ),
)

PLANS = (
    Fault(
        "growth takes off cells of a variable that had none",
        "plan",
        "return (-self.forest.cells(here), (-here,)) if used and here & ~across == 0 else (0, ())",
        "return (-self.forest.cells(here), (-here,)) if here & ~across == 0 else (0, ())",
    ),
    Fault(
        "the forecast of memory at the peak keeps cotangents too long",
        "plan",
        "alive -= 2 * result  # with its cotangent",
        "alive -= result  # with its cotangent",
    ),
    Fault(
        "the way between two variables starts at the first clique that holds one",
        "plan",
        "first = max(i for i, x in enumerate(way) if masks[x] >> u & 1)",
        "first = min(i for i, x in enumerate(way) if masks[x] >> u & 1)",
    ),
    Fault(
        "a cover weighs a region by its commonest attribute",
        "plan",
        "weights = np.array([max((1 / degree[v] for v in region), default=1.0) for region in graph.outer])",
        "weights = np.array([min((1 / degree[v] for v in region), default=1.0) for region in graph.outer])",
    ),
    Fault(
        "slices start at their number and not at their first value",
        "plan",
        "found.append(part * width)",
        "found.append(part)",
    ),
)

INFERENCE = (
    Fault(
        "tiles of a log product are padded with 0 instead of minus infinity",
        "ops",
        (
            "    table = jnp.pad(table, padding, constant_values=-jnp.inf)\n"
            "    shape = (*table.shape[:axis], count, tile, *table.shape[axis + 1 :])"
        ),
        (
            "    table = jnp.pad(table, padding)\n"
            "    shape = (*table.shape[:axis], count, tile, *table.shape[axis + 1 :])"
        ),
    ),
    Fault(
        "the clip limit of the fast product lets lost terms pass",
        "ops",
        "return inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype) / float(numbers.eps)",
        "return inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype)",
    ),
    Fault(
        "a contraction forgets the scale of all steps but the last",
        "ops",
        ("        scale = scale + top\n        alive[number] = (result, step.kept)"),
        ("        scale = top\n        alive[number] = (result, step.kept)"),
    ),
    Fault(
        "the running sum of the kernel is rescaled by the inverse factor",
        "kernels",
        ("        total = total * jnp.exp(top - higher)\n        for term in tile:"),
        ("        total = total * jnp.exp(higher - top)\n        for term in tile:"),
    ),
    Fault(
        "the fused kernel reads flat indices with the first axis fastest",
        "kernels",
        ("    for axis in reversed(axes):\n        # operands are"),
        ("    for axis in axes:\n        # operands are"),
    ),
    Fault(
        "calibration keeps the shift of one message only",
        "oracles",
        "log_partition += float(shift)",
        "log_partition = float(shift)",
    ),
    Fault(
        "the levels' derivative drops the log-partition's part",
        "oracles",
        "return None, weights[0] * marginals + turned",
        "return None, turned",
    ),
    Fault(
        "the maximum over slices is that of the last slice",
        "oracles",
        "return jnp.maximum(top, jnp.asarray(value)), None",
        "return jnp.asarray(value), None",
    ),
    Fault(
        "inaccurate fast products are never run again exactly",
        "oracles",
        "if self.fast and float(error_bound) > np.finfo(dtype).eps:",
        "if self.fast and float(error_bound) > np.finfo(dtype).max:",
    ),
    Fault(
        "the bound of the region oracle counts every region once",
        "oracles",
        "value = jnp.sum(weight * log_scales(maps, x))",
        "value = jnp.sum(log_scales(maps, x))",
    ),
    Fault(
        "the host tree takes joint tables for conditional ones",
        "oracles",
        "source = self.calibration.tables if whole else self.calibration.given",
        "source = self.calibration.tables",
    ),
    Fault(
        "message passing subtracts messages of minus infinity",
        "oracles",
        "message = jnp.where(jnp.isfinite(messages[i]), messages[i], 0)",
        "message = messages[i]",
    ),
)

QUERIES = (
    Fault(
        "the tail of a wide discrete Gaussian lacks the half step",
        "distributions",
        "return math.erfc((half_width + 0.5) / (self.scale * math.sqrt(2)))",
        "return math.erfc(half_width / (self.scale * math.sqrt(2)))",
    ),
    Fault(
        "the tail of the discrete Laplace starts one too early",
        "distributions",
        "return 2 * math.exp(-(half_width + 1) / self.scale) / (1 + math.exp(-1 / self.scale))",
        "return 2 * math.exp(-half_width / self.scale) / (1 + math.exp(-1 / self.scale))",
    ),
    Fault(
        "the variance of the total takes the standard deviation for the variance",
        "total",
        "return float(rows @ values), float(np.sum((rows * stddevs) ** 2))",
        "return float(rows @ values), float(np.sum(rows**2 * stddevs))",
    ),
    Fault(
        "the largest move of one answer forgets records that change their weight",
        "queries",
        "return (spread if max_weight is None else max(spread, entry)) * weight",
        "return spread * weight",
    ),
    Fault(
        "all ranges cover the middle code once too seldom at odd sizes",
        "queries",
        "return ((size + 1) // 2) * (size // 2 + 1)",
        "return (size // 2) * (size // 2 + 1)",
    ),
    Fault(
        "pairs of columns with large absolute products are kept",
        "queries",
        "pairs = pairs[:, _best(pairs, 3, smallest=True)]",
        "pairs = pairs[:, _best(pairs, 3, smallest=False)]",
    ),
    Fault(
        "the bound of a distance takes every matrix for non-negative",
        "queries",
        "return max_column * (2 if power == 1 or nonnegative else 4)",
        "return max_column * 2",
    ),
    Fault(
        "the error of a quantised query forgets the factors that stay",
        "queries",
        "return _Rounded(Product(rounded), Fraction(size * error), grids, whole)",
        "return _Rounded(Product(rounded), Fraction(error), grids, whole)",
    ),
    Fault(
        "the transpose of a weighted sum drops the coefficients",
        "queries",
        ("        result += float(coefficient) * table\n    return result"),
        ("        result += table\n    return result"),
    ),
)

PRIVACY = (
    Fault(
        "the conversion of a divergence divides by the order and not one less",
        "accounting",
        "second = -(math.log(delta) + np.log(orders)) / (orders - 1.0)",
        "second = -(math.log(delta) + np.log(orders)) / orders",
    ),
    Fault(
        "permute-and-flip is charged the rho of the exponential mechanism",
        "accounting",
        'return self.epsilon**2 / (8 if self.method == "exponential" else 2)',
        "return self.epsilon**2 / 8",
    ),
    Fault(
        "Laplace noise on several answers is counted once for each size of move",
        "accounting",
        "kinds = {shift: shifts.count(shift) for shift in shifts}",
        "kinds = dict.fromkeys(shifts, 1)",
    ),
    Fault(
        "loss distributions forget equal events",
        "accounting",
        'parts["gaussian", sigma, shift] += count',
        'parts["gaussian", sigma, shift] = count',
    ),
    Fault(
        "the adaptive filter stops at the order of the largest cap",
        "accounting",
        "return int(np.argmax(allowed / orders))",
        "return int(np.argmax(allowed))",
    ),
    Fault(
        "a budget compares each spend alone with its cap",
        "privacy",
        "        if self._spent + cost > self._cap:",
        "        if cost > self._cap:",
    ),
    Fault(
        "a table that is not valid is charged for",
        "privacy",
        ("        if not self._data.registered and (request is None or not self._is_kept(request)):\n"),
        ("        if False:\n"),
    ),
    Fault(
        "the weight of a weighted table is public",
        "privacy",
        (
            "        if self._data.weighted:\n"
            "            raise ValueError(\n"
            '                "The total weight of a weighted table is private'
        ),
        (
            "        if self._data.weighted and self._relation is not Relation.REPLACE_ONE:\n"
            "            raise ValueError(\n"
            '                "The total weight of a weighted table is private'
        ),
    ),
    Fault(
        "rejection accepts the bound itself",
        "privacy",
        "kept = words[words < bound][: size - filled]",
        "kept = words[words <= bound][: size - filled]",
    ),
    Fault(
        "seeded Gaussian noise is accepted by another ratio",
        "privacy",
        "excess = np.abs(proposal) - scale**2 / width",
        "excess = np.abs(proposal) - scale / width",
    ),
    Fault(
        "noise on rounded similarities is scaled for unrounded ones",
        "privacy",
        "return min(math.ceil(step / GRID) + 1, round(high / GRID) - round(low / GRID))",
        "return min(math.ceil(step / GRID), round(high / GRID) - round(low / GRID))",
    ),
    Fault(
        "a threshold test asks half the noise of its distances",
        "privacy",
        "backend.laplace(moved, cost / 2), backend.laplace(2 * moved, cost / 2)",
        "backend.laplace(moved, cost / 2), backend.laplace(moved, cost / 2)",
    ),
)

RESPONSES = (
    Fault(
        "a lie may repeat the truth",
        "response",
        "answers[lies] = others + (others >= hidden)",
        "answers[lies] = others + (others > hidden)",
    ),
    Fault(
        "a resumed run answers for the first records again",
        "response",
        ("            self._take()\n            self._next += 1\n        self._next += 1"),
        ("            self._next += 1\n        self._next += 1"),
    ),
    Fault(
        "the variance of an answer takes the value for its square",
        "companion",
        "second = self.other * squares + self.gap * value**2",
        "second = self.other * squares + self.gap * value",
    ),
    Fault(
        "the bias of a grid is that of a whole cell",
        "companion",
        "/ (1 << self.bits + 1)",
        "/ (1 << self.bits)",
    ),
    Fault(
        "covariances of exclusive answers lose the whole",
        "perturbed",
        "products += shift * (cells[:, None] + cells[None, :]) - shift**2 * total",
        "products += shift * (cells[:, None] + cells[None, :])",
    ),
)

SCORES = (
    Fault(
        "mutual information takes the smaller bound unless both sides are binary",
        "scores",
        "if min(parents, child) <= 2:",
        "if max(parents, child) > 2:",
    ),
    Fault(
        "a stack of scores forgets their grids in its sensitivity",
        "scores",
        "score.sensitivity(domain, relation, max_weight).value * 2 ** (self.bits - score.bits)",
        "score.sensitivity(domain, relation, max_weight).value",
    ),
    Fault(
        "counts of either sign are taken for monotone",
        "scores",
        "return Relation.parse(relation) is Relation.ADD_REMOVE and self.query.is_nonnegative(domain)",
        "return Relation.parse(relation) is Relation.ADD_REMOVE",
    ),
)

LEDGER = (
    Fault(
        "costs are rounded down to the ledger's units",
        "ledger",
        "return min(max(math.ceil(cost * 10**self.places), 1), LIMIT)",
        "return min(max(math.floor(cost * 10**self.places), 1), LIMIT)",
    ),
    Fault(
        "each order of a Renyi account may use the whole delta",
        "ledger",
        "delta * part, np.array([order]))[0]))",
        "delta, np.array([order]))[0]))",
    ),
    Fault(
        "verification does not add up what is kept as totals",
        "ledger",
        "if counted != number or min(costs) < 1 or sums != json.loads(totals):",
        "if counted != number or min(costs) < 1:",
    ),
)

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
        "start = generator.integers(1 << 20, size=len(counts)) / (1 << 20)",
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
        "gap = max(loss + beside - solution.lower_bound, 0.0)",
        "gap = max(loss - solution.lower_bound, 0.0)",
    ),
    Fault(
        "the bound of a smoothed loss is raised by its slack",
        "descent",
        "lower_bound = max(solution.lower_bound, loss - gap)",
        "lower_bound = max(solution.lower_bound, loss + slack - gap)",
    ),
    Fault(
        "the certificate forgets the prior's weight",
        "certificate",
        "gap = float(centred @ marginals) + weight * (best - own + spent)",
        "gap = float(centred @ marginals) + best - own + spent",
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
        "averaged gradients take steps of half the curvature",
        "solvers",
        "size = t * (t + 1) / (4 * jnp.asarray(constant, dtype))",
        "size = t * (t + 1) / (2 * jnp.asarray(constant, dtype))",
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
        (
            "values = combinations @ (system.answers.values - system.answers.ask(known.worth)) + targets @ "
            "known.worth"
        ),
        "values = combinations @ system.answers.values",
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

MECHANISMS = (
    Fault(
        "AIM lets models grow with what one round costs alone",
        "aim",
        "limit = int(self.max_cells * (budget.spent + now.cost) / budget.cap)",
        "limit = int(self.max_cells * now.cost / budget.cap)",
    ),
    Fault(
        "annealing multiplies rho by the factor of epsilon",
        "aim",
        'factor = (2 if self.unit == "epsilon" else 4) if anneal else 1',
        "factor = 2 if anneal else 1",
    ),
    Fault(
        "answers to one marginal are merged by standard deviations",
        "adaptive mechanisms",
        "precisions = [1 / float(part.stddev) ** 2 for part in parts[clique]]",
        "precisions = [1 / float(part.stddev) for part in parts[clique]]",
    ),
    Fault(
        "the first table of a network is normalised within its parents",
        "privbayes",
        "table = _normalised(counts, tuple(range(counts.ndim)) if place == 0 else (counts.ndim - 1,))",
        "table = _normalised(counts, (counts.ndim - 1,))",
    ),
    Fault(
        "the usefulness of a parent set forgets that noise hits two cells",
        "privbayes",
        "return lambda marginals: Fraction(2 * marginals) / part",
        "return lambda marginals: Fraction(marginals) / part",
    ),
    Fault(
        "a draw of the dual game is charged half its epsilon",
        "dual query",
        "return 2 * self.step * (number - 1) / self.count",
        "return self.step * (number - 1) / self.count",
    ),
    Fault(
        "predicted errors of a strategy take twice the variance",
        "hdmm",
        "float(np.sqrt(float(Fraction(squared) / (2 * share))))",
        "float(np.sqrt(float(Fraction(squared) / share)))",
    ),
    Fault(
        "the encoding of a pair depends on the order of its records",
        "mldp",
        "return np.hstack([vectors, first + second, first * second])",
        "return np.hstack([vectors, first - second, first * second])",
    ),
    Fault(
        "a spanning tree leaves a third of the budget where there is nothing to choose",
        "mst",
        "share = cap / sum(number > 0 for number in numbers)",
        "share = cap / len(numbers)",
    ),
    Fault(
        "multiplicative weights take steps of twice the length",
        "mwem",
        "return transposed(query, domain, cut) / (2 * total * column)",
        "return transposed(query, domain, cut) / (total * column)",
    ),
    Fault(
        "the expected size of Gaussian noise is corrected upwards",
        "measurements",
        "return math.sqrt(2 / math.pi) * (self.scale - 1 / (12 * self.scale))",
        "return math.sqrt(2 / math.pi) * (self.scale + 1 / (12 * self.scale))",
    ),
    Fault(
        "online weights split each update the other way round",
        "online weights",
        "return each * (1 - self.split), each * self.split",
        "return each * self.split, each * (1 - self.split)",
    ),
    Fault(
        "the budget of plain marginals ignores weights",
        "marginals",
        'Fraction(1) if self.split == "equal" else Fraction(entry.weight)',
        'Fraction(1) if self.split in ("equal", "weighted") else Fraction(entry.weight)',
    ),
)

LEARNERS = (
    Fault(
        "a penalty is not scaled with the weights of examples",
        "learners",
        "ridge = penalty / weights.max()",
        "ridge = penalty",
    ),
    Fault(
        "the bell curves of a basis are narrower than their width says",
        "learners",
        "/ (2 * width**2))",
        "/ width**2)",
    ),
)

TRAINING = (
    Fault(
        "the bound of a trained model forgets a factor of two",
        "training",
        "return records * math.sqrt(math.log(2 * hypotheses / beta) / (2 * count))",
        "return records * math.sqrt(math.log(2 * hypotheses / beta) / count)",
    ),
    Fault(
        "scaled answers keep their unscaled deviations",
        "training",
        "answers, stddevs = answers / training_set.scales, stddevs / training_set.scales",
        "answers = answers / training_set.scales",
    ),
)

GRADIENTS = (
    Fault(
        "the slopes of a fit leave out the prior",
        "gradients",
        "return numbers.total * self.roots(numbers) * missed + numbers.prior_weight * point",
        "return numbers.total * self.roots(numbers) * missed",
    ),
    Fault(
        "a Newton step counts the total once in the curvature",
        "gradients",
        "return self.product(self.total**2 * self.product(vector)",
        "return self.product(self.total * self.product(vector)",
    ),
)

RELEASES = (
    Fault(
        "answers of a release stand beside the noise of other queries",
        "release",
        "measurement = measured.get((query.clique, query))",
        "measurement = next((m for (clique, _), m in measured.items() if clique == query.clique), None)",
    ),
    Fault(
        "the total of a weighted table is said to be public",
        "release",
        "return self.relation is Relation.REPLACE_ONE and not self.weighted",
        "return self.relation is Relation.REPLACE_ONE",
    ),
    Fault(
        "a report says that the number of records is public under add-remove",
        "report",
        'number = "is secret" if record["relation"] == "add-remove" else "is public"',
        'number = "is public" if record["relation"] == "add-remove" else "is secret"',
    ),
)

SWEEPS = (
    Fault(
        "total variation is not halved",
        "sweeps",
        "return float(np.abs(ours / ours.sum() - true / true.sum()).sum() / 2)",
        "return float(np.abs(ours / ours.sum() - true / true.sum()).sum())",
    ),
    Fault(
        "trials of a sweep share their seed",
        "sweeps",
        (
            'keys = [_digest({"group": self.key, "trial": trial}) for trial in range(self.trials)]\n'
            "        return tuple(Cell(key, trial, int(key[:15], 16))"
        ),
        (
            'keys = [_digest({"group": self.key, "trial": trial}) for trial in range(self.trials)]\n'
            "        return tuple(Cell(key, trial, int(keys[0][:15], 16))"
        ),
    ),
)

AUDIT = (
    Fault(
        "the lower bound of a probability is that of one event less",
        "audit",
        "special.betaincinv(np.maximum(held, 1), of - held + 1, alpha)",
        "special.betaincinv(np.maximum(held, 1), of - held + 1, 1 - alpha)",
    ),
    Fault(
        "the black box audit forgets that it looks from two sides",
        "audit",
        "_SIDES = 4  # two directions",
        "_SIDES = 1  # two directions",
    ),
    Fault(
        "a chi-square test has one degree of freedom too many",
        "audit",
        "seen.size - 1 if freedom is None else freedom",
        "seen.size if freedom is None else freedom",
    ),
)

ADAPTERS = (
    Fault(
        "weighted answers of a foreign object keep their noise",
        "adapters",
        "values.reshape(-1) / weights, stddev / weights, None, noise)",
        "values.reshape(-1) / weights, np.broadcast_to(stddev, weights.shape), None, noise)",
    ),
    Fault(
        "a foreign factor is transposed the wrong way round",
        "adapters",
        "return np.asarray(factor.values, np.float64).transpose([names.index(name) for name in clique])",
        "return np.asarray(factor.values, np.float64).transpose([clique.index(name) for name in names])",
    ),
)

CLI = (
    Fault(
        "a share of the rows is taken of one and not of the total",
        "cli",
        "({estimate / model.total:.2%})",
        "({estimate:.2%})",
    ),
    Fault(
        "the command line fits in float32 by default",
        "cli",
        'group.add_argument("--dtype", default="float64"',
        'group.add_argument("--dtype", default="float32"',
    ),
)

FAULTS = (
    *TABLES,
    *PLANS,
    *INFERENCE,
    *QUERIES,
    *PRIVACY,
    *RESPONSES,
    *SCORES,
    *LEDGER,
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
    *MECHANISMS,
    *LEARNERS,
    *TRAINING,
    *GRADIENTS,
    *RELEASES,
    *SWEEPS,
    *AUDIT,
    *ADAPTERS,
    *CLI,
)
