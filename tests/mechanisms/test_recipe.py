"""The recipe: who chooses gets every marginal, others what fits together, and a limit means one thing."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import mechanisms
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.mechanisms import hdmm
from pgmjax.mechanisms.forecast import BYTES, LIMITS, SECONDS, choose, forecast
from pgmjax.queries.workload import KWay
from pgmjax.strategies import candidates

DOMAIN = pj.Domain({"a": 30, "b": 40, "c": 50, "d": 2, "e": 600})
NAMES = [name for name in mechanisms.names() if mechanisms.names()[name] is not mechanisms.RandomizedResponse]


def made(name, **more):
    kind = mechanisms.names()[name]
    return kind(epsilon=1, relation=kind.relations[0], **more)


@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_gets_what_it_can_use(name):
    limit = 24_000  # of b, e and smaller; c, e has 30,000
    found = choose(made(name), DOMAIN, KWay(2, limit))
    pairs = list(itertools.combinations(DOMAIN.attributes, 2))
    asked = set(found.workload.cliques)
    assert {*asked, *found.left_out} == set(pairs) and len(asked) + len(found.left_out) == len(pairs)
    if found.mechanism.chooses:
        assert asked == {pair for pair in pairs if DOMAIN.size(pair) <= limit}
    else:
        place = {each: i for i, each in enumerate(DOMAIN.attributes)}
        assert total_cells(DOMAIN.shape, [[place[each] for each in pair] for pair in asked]) <= limit
        assert len(asked) < 9
    assert getattr(found.mechanism, "max_cells", limit) == limit
    assert "(--max-cells)" in found.reasons[0] and f"{len(found.left_out)} of 10" in found.reasons[0]


@pytest.mark.parametrize("name", ["auto", "marginals", "batch-aim", "mst"])
def test_the_default_is_the_most_that_fits_a_minute(name):
    domain = pj.Domain({f"x{i:02d}": 12 for i in range(24)})
    found = choose(made(name), domain, KWay(2))
    seconds = forecast(found.mechanism, domain, found.workload).seconds
    assert found.max_cells in LIMITS and seconds <= SECONDS
    larger = [limit for limit in LIMITS if limit > found.max_cells]
    if larger and name in ("auto", "batch-aim", "marginals"):
        try:
            more = choose(made(name), domain, KWay(2, larger[0]))
            tried = forecast(more.mechanism, domain, more.workload)
            assert tried.seconds > SECONDS or tried.peak_bytes > BYTES or more.workload == found.workload
        except ValueError as error:  # it does not fit in memory
            assert "memory" in str(error)


def test_a_refusal_names_the_limit():
    with pytest.raises(ValueError, match=r"2-way.*3.*max_cells"):
        choose(made("mst"), DOMAIN, KWay(2, 3))
    with pytest.raises(ValueError, match=r"max_cells.*0"):
        choose(made("mst"), DOMAIN, KWay(2, 0))


@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_has_a_forecast_of_every_stage(name):
    domain = pj.Domain({"a": 3, "b": 4, "c": 5})
    found = forecast(made(name), domain, pj.Workload.all_kway(domain, 2), records=1000)
    assert [s.name for s in found.stages if s.name != "choose"] == ["start", "count", "noise", "fit", "write"]
    assert all(np.isfinite(stage.seconds) and stage.seconds > 0 and stage.bytes > 0 for stage in found.stages)
    text = "\n".join(found.lines(1000))
    assert "Time and memory for 1,000 records" in text and "together" in text


def test_a_searched_strategy_is_searched_for_the_limit_that_is_taken_alone(monkeypatch):
    """HDMM's model has the cliques of the workload, and limits are compared by them."""
    searched = []

    def noted(workload, *given, **search):
        searched.append(len(workload.entries))
        return candidates(workload, *given, **search)

    monkeypatch.setattr(hdmm, "candidates", noted)
    domain = pj.Domain({"a": 300, "b": 200, "c": 100, "d": 5})
    plain, best = (kind(epsilon=1, relation="add-remove") for kind in (pj.mechanisms.Marginals, hdmm.HDMM))
    found = choose(best, domain, KWay(2))
    same = choose(plain, domain, KWay(2))
    assert (found.max_cells, found.workload) == (same.max_cells, same.workload)
    assert searched == [len(found.workload.entries)]
    stages = [stage.name for stage in forecast(best, domain, found.workload).stages]
    assert stages == ["start", "count", "noise", "choose", "fit", "write"]
