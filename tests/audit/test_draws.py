"""One draw a cell: what the choke point counts by itself, and what draws that can be told apart show."""

import numpy as np
import pytest

from pgmjax.audit import check_draws
from pgmjax.audit.draws import CountingBackend
from pgmjax.audit.mechanism import WORKLOAD, AuditCase
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy import measuring
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.tape import NonInterferenceError
from pgmjax.queries import marginal
from tests.audit import frontends
from tests.audit.mutations import replaced
from tests.audit.specimen import SelectAndMeasure

FALSE_ALARMS = 0.0  # everything is seeded or exact

WIDE = Domain({"a": 200, "b": 3})
DATA = Dataset.from_columns(WIDE, {"a": [0, 5, 5], "b": [0, 1, 2]})


def measure(backend, data=DATA):
    table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), backend)
    queries = [marginal(["a", "b"]), marginal(["b"])]
    return table.measure(queries, epsilons=["1/4", "1/4"], show_progress=False)


def test_every_cell_has_a_draw_of_its_own():
    assert check_draws(measure) == 603
    released = [each.values for each in measure(CountingBackend())]
    exact = DATA.marginals([("a", "b"), ("b",)])
    added = np.concatenate([r - e.reshape(-1) for r, e in zip(released, exact, strict=True)])
    numbers = np.arange(603)
    assert (added == (2**26 + numbers) * (-1) ** numbers).all()


@pytest.mark.parametrize("frontend", [SelectAndMeasure, *frontends.names().values()], ids=lambda f: f.name)
def test_every_front_end_is_sound(frontend):
    relation = getattr(frontend, "relations", tuple(Relation))[-1]
    case = AuditCase(frontend, relation)
    table = next(iter(case.tables(1)))[0]
    assert check_draws(lambda backend: case.make(backend=backend).run(table, WORKLOAD)) > 0


def noise_of(change):
    """Measure with `change(exact, noise)` in place of the sum."""
    with replaced((measuring, "noisy", change)):
        check_draws(measure)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda exact, noise: exact, "600 of 600 numbers without a draw"),
        (lambda exact, noise: exact + noise // 2, "without a draw of noise of their own"),
        (lambda exact, noise: exact + noise + np.roll(noise, 1), "without a draw"),
        (lambda exact, noise: exact + np.abs(noise), "the first in row 1"),
        (lambda exact, noise: exact + np.sort(noise), "in another order than they were drawn"),
        (lambda exact, noise: exact + noise[0], "or one of them twice"),
        (lambda exact, noise: exact + (np.arange(exact.size) != 599) * noise, "1 of 600 numbers .* row 599"),
    ],
)
def test_another_use_of_the_draws_is_found(change, said):
    with pytest.raises(NonInterferenceError, match=said):
        noise_of(change)


def test_a_draw_in_two_queries_is_found():
    true = measuring.draw

    def shared(planned, backend, show):
        noise = true(planned, backend, show)
        return [noise[0], noise[0][:3].copy()]

    with replaced((measuring, "draw", shared)), pytest.raises(NonInterferenceError, match="in two released"):
        check_draws(measure)


@pytest.mark.parametrize("more, said", [(1, "604 draws of noise were made and 603 were released"), (0, None)])
def test_draws_that_are_thrown_away_are_found(more, said):
    def run(backend):
        measure(backend)
        backend.draw(DiscreteLaplace(1.0), more)

    if said is None:
        assert check_draws(run) == 603
        return
    with pytest.raises(NonInterferenceError, match=said):
        check_draws(run)


def test_choices_and_responses_past_the_choke_point_are_found():
    def chosen(backend):
        backend.choose(backend.permute_and_flip(1, 1), np.array([1, 2]))

    def responded(backend):
        backend.respond(backend.randomized_response(3, 1), np.array([0, 1]))

    with pytest.raises(NonInterferenceError, match="1 choices were made and 0 were released"):
        check_draws(chosen)
    with pytest.raises(NonInterferenceError, match="2 responses were made and 0 were released"):
        check_draws(responded)


def test_a_run_that_fails_half_way_is_looked_at():
    def run(backend):
        measure(backend)
        backend.draw(DiscreteLaplace(1.0), 1)
        raise ValueError("the fit failed")

    assert check_draws(run) == 603


class Short(SeededBackend):
    """Hands out something else than was asked for."""

    def __init__(self, change):
        super().__init__(0, insecure=True)
        self.change = change

    def restart(self):
        return self

    def draw(self, distribution, size):
        return self.change(super().draw(distribution, size))


@pytest.mark.parametrize(
    "change, got",
    [
        (lambda noise: noise[:-1], r"int64 \(205,\)"),
        (lambda noise: noise[:1], r"int64 \(1,\)"),
        (lambda noise: noise.astype(np.float64), "float64"),
        (lambda noise: list(noise), "list"),
        (lambda noise: noise[:, None], r"\(206, 1\)"),
    ],
)
def test_the_choke_point_counts_what_a_backend_hands_out(change, got):
    """Before the table is read; one number would otherwise be added to all cells."""
    read = []

    class Watched(Dataset):
        def marginals(self, cliques):
            read.append(cliques)
            return super().marginals(cliques)

    data = Watched.from_columns(Domain({"a": 206}), {"a": [1]})
    table = PrivateTable(data, Relation.ADD_REMOVE, Budget(1), Short(change))
    with pytest.raises(RuntimeError, match=f"must hand out int64 draws of shape .206,.*{got}"):
        table.measure([marginal(["a"])], epsilons=[1], show_progress=False)
    assert read == [] and table.budget.spent == 1


@pytest.mark.parametrize(
    "noise, said",
    [
        (lambda noise: [noise[0], noise[0][:3]], "share one array"),
        (lambda noise: [noise[0], noise[1][:2]], "needs a draw of noise of its own"),
        (lambda noise: [noise[0], np.zeros(1, dtype=np.int64)], "needs a draw of noise of its own"),
        (lambda noise: noise[:1], "needs a draw of noise of its own"),
    ],
)
def test_the_choke_point_counts_what_it_is_going_to_add(noise, said):
    true = measuring.draw
    with (
        replaced((measuring, "draw", lambda *given: noise(true(*given)))),
        pytest.raises(RuntimeError, match=said),
    ):
        measure(SeededBackend(0, insecure=True))


def test_too_many_draws_to_be_told_apart_are_refused():
    backend = CountingBackend()
    backend.draws = 2**26
    with pytest.raises(ValueError, match="can be told apart"):
        backend.draw(DiscreteLaplace(1.0), 1)
