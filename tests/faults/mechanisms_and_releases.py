"""Seeded faults in mechanisms, learners, gradients, releases, sweeps, the audit, adapters and the command."""

from source import Fault

MECHANISMS = (
    Fault(
        "a log line gives the number of records",
        "mechanisms",
        '_LOG.info("%s: measured %d tables", self.mechanism.name, len(measured))',
        '_LOG.info("%s: read %d", self.mechanism.name, self.table._data.count())',
    ),
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
        "found = self.estimates / total",
        "found = self.estimates",
    ),
    Fault(
        "the command line fits in float32 by default",
        "cli",
        'default="float64",',
        'default="float32",',
    ),
)

FAULTS = (
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
