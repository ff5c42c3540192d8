"""Small tables and the calls that the kept artefacts come from; the tests make some of the calls again."""

import warnings

import numpy as np

import pgmjax as pj

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": {"labels": ["no", "yes"]}})
WORKLOAD = pj.Workload([["a", "b"], {"clique": ["b", "c"], "queries": {"b": "prefix"}, "weight": 2}])
CLIQUES = [("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("a", "c")]
FEW_STEPS = pj.Estimator(max_steps=5, progress=False)
LEARNERS = ("linear", "ridge", "gaussian-basis", "mlp", "engine", "sklearn.Ridge")
ROWS = 60
KEY = "half"
"""Names the run that was interrupted."""


def codes(shift=0):
    """Columns of a table of 60 records, without chance; another shift is another table."""
    i = np.arange(ROWS)
    a = (i * i + i // 7 + shift) % 3
    b = (i // 4 + a) % 2
    return {"a": a, "b": b, "c": (i // 9 + b * (i % 3 > 0)) % 2}


def table(shift=0):
    return pj.Dataset.from_columns(DOMAIN, codes(shift))


def csv_text(shift=0):
    columns = codes(shift)
    rows = zip(columns["a"], columns["b"], columns["c"], strict=True)
    return "a,b,c\n" + "".join(f"{a},{b},{('no', 'yes')[c]}\n" for a, b, c in rows)


def seeded(seed=3):
    return pj.privacy.SeededBackend(seed, insecure=True)


class StopsAt(pj.privacy.SeededBackend):
    """Repeatable noise whose source fails at a certain use: the run stops half way, as at a crash."""

    def __init__(self, uses, seed=3):
        super().__init__(seed, insecure=True)
        self._left = uses

    def restart(self):
        return StopsAt(self._left, self.seed)

    def draw(self, distribution, size):
        self._use()
        return super().draw(distribution, size)

    def choose(self, distribution, scores):
        self._use()
        return super().choose(distribution, scores)

    def _use(self):
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1


def mechanism(name, relation=None, epsilon=4, backend=None, **options):
    """A mechanism with settings that do for 60 records."""
    made = pj.mechanisms.names()[name]
    chosen = pj.mechanisms.relations(made)[-1] if relation is None else relation
    if name == "randomized-response":
        options.setdefault("useless", "answer")
    backend = seeded() if backend is None else backend
    return made(epsilon=epsilon, relation=chosen, estimator=FEW_STEPS, backend=backend, **options)


def release(name, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mechanism(name, **settings).run(table(), WORKLOAD, show_progress=False)


def stopping():
    """A source that fails at the second choice: three of five answers are stored by then."""
    return StopsAt(3)


def interrupted(ledger, backend=None):
    """The run of several steps that was stopped half way: asked again under its key, it goes on."""
    run = mechanism(
        "mwem", relation="add-remove", epsilon=1, delta="1e-6", rounds=2, steps=5, backend=backend
    )
    return run.run(table(1), WORKLOAD, ledger=ledger, key=KEY, show_progress=False)


def refused(ledger):
    """A run that costs more than its table's account has left."""
    run = mechanism("marginals", relation="replace-one", epsilon=1, delta="1e-6")
    return run.run(table(2), WORKLOAD, ledger=ledger, key="dear", show_progress=False)


def mixed_events():
    """An event of each kind."""
    privacy = pj.privacy
    return [
        privacy.Pure("0.01"),
        privacy.Concentrated("1/1000"),
        privacy.Laplace("0.02"),
        privacy.Gaussian("1/500"),
        privacy.Selection("0.05", "exponential"),
        privacy.Selection("0.05", "permute-and-flip"),
        privacy.Response("0.1"),
    ]


def mixed(ledger):
    """The charge of several kinds of events, with one answer."""
    charge = ledger.reserve(
        "refused", "mixed", {"ask": "a"}, mixed_events(), relation="replace-one", secure=False
    )
    return charge, charge.answer(0, {"ask": "a"}, lambda: b"17")


def release_words(folder, out):
    """`pgmjax release` as the finished run was made, whose account is one of a file."""
    words = ["release", folder / "people.csv", "--domain", folder / "domain.json", "--relation", "add-remove"]
    words += ["--epsilon", "0.75", "--ledger", folder / "budgets.ledger", "--insecure-seed", "5"]
    words += ["--workload", folder / "workload.json", "--steps", "5", "--rows", "3", "--quiet", "--out", out]
    return [str(word) for word in words]


def session(ledger, name="session", backend=None):
    backend = seeded() if backend is None else backend
    return pj.history.Session.open(
        ledger, table(), cap="0.5", relation="add-remove", name=name, backend=backend
    )


def point(attribute, code):
    return pj.queries.Product({attribute: pj.queries.point(code)})


GRID = """
[grid]
name = "guard"
trials = 2
epsilons = [1, "1/3"]
relation = "replace-one"
[estimator]
max_steps = 5
[[tables]]
name = "people"
path = "people.csv"
domain = "domain.json"
[[workloads]]
name = "1-way"
all_kway = 1
[[mechanisms]]
name = "marginals"
[[mechanisms]]
name = "mwem"
options = { estimate = "multiplicative-weights", rounds = 1, sweeps = 2 }
"""
