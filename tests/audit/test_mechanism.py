"""L1 and L3 of mechanisms that are not the library's own: what is said of each that has a fault."""

import sys
import warnings

import numpy as np
import pytest

from pgmjax import audit, mechanisms
from pgmjax.audit import replay, smoke
from pgmjax.audit.compare import differences
from pgmjax.audit.mechanism import AuditCase
from pgmjax.estimation.estimator import Estimator
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Counts
from pgmjax.queries import marginal
from tests.audit import mutations

FALSE_ALARMS = 0.0  # everything is seeded

ADD, REPLACE = "add-remove", "replace-one"


class Result:
    def __init__(self, measurements, extra=None):
        self.measurements, self.extra = measurements, extra


class Own:
    """Laplace noise for every attribute: pure epsilon, whatever delta."""

    name = "own"

    def __init__(self, epsilon, relation, delta=0, backend=None):
        self.epsilon, self.relation, self.delta, self.backend = epsilon, relation, delta, backend

    def extra(self, data):
        return None

    def measured(self, data):
        budget = Budget(self.epsilon)
        table = PrivateTable(data, self.relation, budget, self.backend)
        names = [marginal([name]) for name in table.domain]
        return table.measure(names, epsilons=budget.split([1] * len(names)), show_progress=False)

    def run(self, data, workload):
        return Result(self.measured(data), self.extra(data))


class Renyi(Own):
    """Laplace and Gaussian noise and a choice, under one account of Renyi divergences."""

    share = 1

    def measured(self, data):
        budget = Budget(exact_epsilon(self.epsilon) * self.share, "renyi", delta=self.delta)
        table = PrivateTable(data, self.relation, budget, self.backend)
        first, second, third, _ = budget.split([1] * 4)
        measured = [*table.measure([marginal(["a"])], rhos=[first], show_progress=False)]
        epsilon = exact_epsilon(float(second)) / 10
        measured += table.measure([marginal(["b"])], epsilons=[epsilon], show_progress=False)
        table.select(Counts(marginal(["c"])), rho=third)
        while table.budget.remaining >= budget.cap / 8:  # the rest, by Laplace noise of small cost
            measured += table.measure([marginal(["c"])], epsilons=["0.05"], show_progress=False)
        return tuple(measured)


class Greedy(Renyi):
    share = 2


def own(**methods):
    return type("Changed", (Own,), methods)


def counted(self, data):
    return data.count()


def fails_without_zeros(self, data):
    if data.marginals([("a",)])[0][0] == 0:
        raise ValueError("no zeros")


def fails_always(self, data):
    raise ValueError("never works")


def fails_with_the_count(self, data):
    raise ValueError(f"{data.count()} records")


def warns(self, data):
    warnings.warn(f"{data.count()} records", stacklevel=1)


def prints(self, data):
    print(data.count())


def complains(self, data):
    sys.stderr.write(f"{data.count()}")


def random_number(self, data):
    return np.random.default_rng().normal()


def hidden(self, data):
    return iter([data.count()])


def exact(self, data, workload):
    return data.marginals([("a",)])[0]


def homemade(self, data, workload):
    return data.marginals([("a",)])[0] + np.random.default_rng().laplace(size=3)


def without(self, data, workload):
    return Result((), 1)


def no_measurements(self, data, workload):
    return [each.values for each in self.measured(data)]


def nothing_measured(self, data, workload):
    self.measured(data)
    return Result(())


def twice(self, data, workload):
    return self.measured(data) + self.measured(data)


def audited(mechanism, relation=ADD, **more):
    more = {"pairs": 16, "trials": 0, "show_progress": False, **more}
    return audit.audit_mechanism(mechanism, relation, **more)


FAULTS = {
    "count": (own(extra=counted), r"result\.extra"),
    "fails on one": (own(extra=fails_without_zeros), "raises ValueError on one of two neighbours only"),
    "fails on all": (own(extra=fails_always), "so that it cannot be audited: never works"),
    "telling error": (
        own(extra=fails_with_the_count),
        "raises an error on both neighbours, but not the same",
    ),
    "warning": (own(extra=warns), "written to warnings differs"),
    "standard output": (own(extra=prints), "written to standard output differs"),
    "standard error": (own(extra=complains), "written to standard error differs"),
    "random": (own(extra=random_number), r"not deterministic.*the results differ in result\.extra\)"),
    "out of sight": (own(extra=hidden), r"TypeError: A result holds a builtins\.list_iterator"),
    "exact": (own(run=exact), r"differ in result: .* went through privacy\.PrivateTable"),
    "homemade noise": (own(run=homemade), r"not deterministic.* went through privacy\.PrivateTable"),
    "without a table": (own(run=without), r"privacy\.PrivateTable"),
    "spent twice": (own(run=twice), "cost 2 epsilon by their sensitivities and noise scales, but only 1"),
}


@pytest.mark.parametrize("mechanism, said", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named(mechanism, said):
    found = audited(mechanism, pairs=60)
    assert not found.passed and found.calls == 0
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(found.fault)


def test_a_failure_on_one_neighbour_is_found_behind_failures_on_both():
    """A pair on which both fail comes first."""
    run = AuditCase(own(extra=fails_without_zeros), ADD).make().run
    pairs = list(audit.neighbours(replay_domain(), ADD, pairs=60))

    def fails(data):
        return data.marginals([("a",)])[0][0] == 0

    both = next(pair for pair in pairs if all(map(fails, pair)))
    one = next(pair for pair in pairs if fails(pair[0]) != fails(pair[1]))
    with pytest.raises(audit.CannotAuditError, match="no zeros"):
        audit.check_pairs(lambda data: run(data, None), [both])
    with pytest.raises(audit.NonInterferenceError, match="on one of two neighbours only"):
        audit.check_pairs(lambda data: run(data, None), [both, one])
    with pytest.raises(audit.NonInterferenceError, match="on one of two neighbours only"):
        audit.check_pairs(lambda data: run(data, None), [both, one[::-1]])


def replay_domain():
    return audit.mechanism.DOMAIN


def test_a_first_warning_is_no_randomness():
    said = []

    def warn_once(self, data):
        if not said:
            said.append(1)
            warnings.warn("new here", stacklevel=1)

    assert audited(own(extra=warn_once)).passed


def test_pairs_are_those_without_fault():
    """The fault is in the third table's pair: one whose first table is the third."""
    seen = []

    def late(self, data):
        seen.append(data)
        return data.count() if len(seen) > 3 + 2 * 4 else 0  # 3 runs for repeats, 2 for each pair

    found = audited(own(extra=late))
    assert not found.passed and found.pairs == 4
    assert audited(Own).pairs == 16
    beyond = audited(own(run=twice))
    assert beyond.pairs == 0


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_pure_and_renyi_accounts_are_accepted_where_delta_is_claimed(relation):
    for mechanism in (Own, Renyi):
        found = audited(mechanism, relation, delta="1e-6")
        assert found.passed, found.fault
    found = audited(Greedy, relation, delta="1e-6")
    assert "no finite epsilon" in found.fault and "at that delta is claimed" in found.fault


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_more_than_pure_epsilon_is_found_where_delta_is_claimed(relation):
    """Twice an epsilon of 1 is an epsilon of 2, and no better at a delta of 1e-6."""
    found = audited(own(run=twice), relation, delta="1e-6")
    assert "cost 2 epsilon" in found.fault


@pytest.mark.parametrize(
    "mechanism, lacks",
    [
        (type("NoName", (Own,), {"name": None}), "lacks a text `name`"),
        (type("NoRun", (Own,), {"run": None}), r"lacks `run\(data, workload\)`"),
        (
            type("Few", (Own,), {"__init__": lambda self, epsilon, relation: None}),
            "lacks a parameter `delta`, a parameter `backend`",
        ),
        (3, "must be a class, got int"),
    ],
)
def test_what_is_no_mechanism_is_refused_at_once(mechanism, lacks):
    with pytest.raises(TypeError, match=lacks):
        audited(mechanism)
    with pytest.raises(TypeError, match=lacks):
        audit.replay_mechanism(mechanism, ADD)
    with pytest.raises(TypeError, match=lacks):
        audit.lower_bound(mechanism, ADD, trials=2)


@pytest.mark.parametrize("wrong", [{"pairs": 0}, {"trials": -1}, {"seed": -1}, {"epsilon": 0}, {"delta": 1}])
def test_bad_numbers_are_errors_and_no_faults(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        audited(Own, **wrong)


@pytest.mark.parametrize("run", [no_measurements, nothing_measured], ids=lambda run: run.__name__)
def test_black_box_runs_need_measurements(run):
    found = audited(own(run=run), trials=10)
    assert found.passed and found.bound is None and "L3 is not possible" in found.note
    assert "not possible" in audit.as_table([found])
    with pytest.raises(smoke.NoMeasurementsError, match="measurements"):
        audit.lower_bound(own(run=run), ADD, trials=2, show_progress=False)


def test_a_bound_of_zero_is_called_powerless():
    found = audited(Own, trials=10)
    assert found.bound == 0.0 and "no power" in found.note and found.to_dict()["note"] == found.note
    assert "no power (10 runs)" in audit.as_table([found]) and "0.000" not in audit.as_table([found])


class Fits(mechanisms.Marginals):
    """Needs its fit: what is measured second follows from it."""

    name = "fits"

    def run(self, data, workload):
        budget = Budget(self.epsilon)
        table = PrivateTable(data, self.relation, budget, self.backend)
        half = budget.remaining / 2
        measured = table.measure([marginal(["a"])], epsilons=[half], show_progress=False)
        model = self.estimator.fit(table.domain, measured, total=40).model
        measured += table.measure([marginal(["a"])], epsilons=[half], show_progress=False)
        return Result(measured, model)


@pytest.mark.parametrize("mechanism, fits", [(mechanisms.Marginals, 1), (Fits, 1 + 2 * 5)])
def test_nothing_is_fitted_where_measurements_do_not_need_it(mechanism, fits, monkeypatch):
    """One fit to see that it changes nothing; the bound is the same as with fits."""
    done = []
    true = Estimator.fit
    monkeypatch.setattr(
        Estimator, "fit", lambda self, *given, **more: done.append(1) or true(self, *given, **more)
    )
    case = AuditCase(mechanism, ADD)
    found = smoke.bound_case(case, 5, show_progress=False)
    assert len(done) == fits
    full = AuditCase(mechanism, ADD, options={"estimator": Estimator(max_steps=5, progress=False)})
    assert differences(found, smoke.bound_case(full, 5, show_progress=False)) == []


def test_black_box_runs_that_take_long_are_made_on_request():
    found = audited(Fits, pairs=1, trials=None)
    assert found.passed and found.bound is None and found.trials == 0
    assert "each run fits a model" in found.note and "not run" in audit.as_table([found])
    assert audited(Fits, pairs=1, trials=2).trials == 2


@pytest.mark.slow
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_black_box_runs_find_noise_of_half_the_scale(relation):
    """2,000 runs: a true epsilon of 2 is found to be above 1."""
    with mutations.half_scale():
        assert smoke.lower_bound(mechanisms.Marginals, relation, show_progress=False).exceeds(1)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_black_box_runs_of_sound_noise_stay_below_the_claim(relation):
    found = smoke.lower_bound(mechanisms.Marginals, relation, trials=300, show_progress=False)
    assert 0 <= found.value <= 1


def test_the_first_table_is_run_three_times():
    """Once to warm up and twice to see that it repeats, before its pair."""
    runs = []

    def run(data):
        runs.append(data)
        return AuditCase(Own, ADD).make().measured(data)[0].values

    pairs = list(audit.neighbours(replay_domain(), ADD, pairs=2))
    replay.check_pairs(run, pairs)
    expected = [pairs[0][0]] * 4 + [pairs[0][1], *pairs[1]]
    assert [id(each) for each in runs] == [id(each) for each in expected]
