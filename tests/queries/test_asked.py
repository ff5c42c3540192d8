"""Conditions as text, or names, are taken wherever a query is asked, and mean the same as the query."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax import queries as q
from pgmjax.history.rows import Rows
from pgmjax.learning import learn
from pgmjax.local import answer_conditions
from pgmjax.privacy import SeededBackend

DOMAIN = pj.Domain(
    {"age": {"bins": [0, 20, 40, 99]}, "sex": {"labels": ["F", "M"]}, "stars": {"min": 1, "max": 3}}
)
DRAW = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"age": DRAW.integers(0, 99, 600), "sex": DRAW.choice(["F", "M"], 600), "stars": DRAW.integers(1, 4, 600)}
)
DATA = pj.Dataset.from_frame(DOMAIN, FRAME)
TEXT, QUERY = (
    "sex=M,age<40,stars>1",
    q.Product({"age": q.subset([q.Code(0), q.Code(1)]), "sex": q.point("M"), "stars": q.range(2, 3)}),
)
NAMES, MARGINAL = ("sex", "stars"), q.marginal(("sex", "stars"))


def seeded():
    return SeededBackend(0, insecure=True)


@pytest.fixture(scope="module")
def release():
    made = pj.mechanisms.Marginals(epsilon=20, relation="replace-one", backend=seeded())
    return made.run(DATA, pj.Workload([["age", "sex", "stars"]]), show_progress=False)


@pytest.mark.parametrize(("said", "query"), [(TEXT, QUERY), (NAMES, MARGINAL), ([*NAMES], MARGINAL)])
def test_every_door_takes_it(said, query, release, tmp_path):
    release.save(tmp_path / "r")
    (predictor, _) = learn(DOMAIN, release.measurements, "ridge")
    pairs = [
        (release.model.answer(said), release.model.answer(query)),
        (release.report(said).intervals, release.report(query).intervals),
        (pj.load(tmp_path / "r").report(said).estimates, release.report(query).estimates),
        (Rows.of([said], DOMAIN).matrix(), Rows.of([query], DOMAIN).matrix()),
    ]
    bars = [
        pj.uncertainty.error_bars(release.fit, release.measurements, [each]).stddevs for each in (said, query)
    ]
    for ours, theirs in [*pairs, bars]:
        np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), rtol=1e-13)
    if said == TEXT:
        np.testing.assert_array_equal(predictor.predict(said), predictor.predict(query))


def test_a_release_answers_conditions_in_memory_and_on_disk_as_a_synthesizer_does(tmp_path):
    made = pj.Synthesizer(epsilon=5, relation="add-remove", insecure_seed=0).fit(FRAME, DOMAIN)
    made.save(tmp_path / "r")
    answers = [each.query(TEXT) for each in (made, made.release, pj.load(tmp_path / "r"))]
    assert answers[0] == answers[1] and str(answers[0]) == str(answers[1]) == str(answers[2])
    assert float(answers[0]) == answers[0].count == answers[0].estimate
    with pytest.raises(AttributeError, match=r"'ci'.*low.*high"):
        _ = answers[0].ci


def test_evidence_sessions_and_perturbed_tables_take_conditions(release, tmp_path):
    kept = {"sex": ["M"], "age": ["[0, 20)", "[20, 40)"], "stars": [2, 3]}
    assert release.model.condition(TEXT).total == release.model.condition(kept).total
    table = pj.mechanisms.RandomizedResponse(
        epsilon=4, relation="replace-one", universe="joint", backend=seeded()
    )
    perturbed = table.perturb(DATA, row_order="sorted")
    assert answer_conditions(perturbed, [TEXT]).value == answer_conditions(perturbed, [kept]).value
    opened = [pj.mechanisms.OnlineWeights(5, "replace-one", backend=seeded()).open(DATA) for _ in range(2)]
    assert opened[0].answer(TEXT) == opened[1].answer(QUERY)
    with pj.privacy.Ledger.create(tmp_path / "l.ledger") as ledger:
        given = {"domain": DOMAIN, "digest": ledger.digest_of(DATA)}
        ledger.register("people", epsilon=3, relation="add-remove", **given)
        with pj.history.Session.open(ledger, DATA, cap=1, relation="add-remove") as session:
            first = session.ask(TEXT, 60)
            again = session.ask(QUERY, 60)
    assert again.source == "history" and again.value == first.value


def test_a_history_takes_conditions_and_names():
    values = np.arange(1.0 + DOMAIN.size(NAMES))
    said, meant = (
        pj.history.History.from_answers(DOMAIN, queries, values, stddev=2.0)
        for queries in ([TEXT, NAMES], [QUERY, MARGINAL])
    )
    np.testing.assert_array_equal(said.rows.matrix(), meant.rows.matrix())


def test_several_conditions_are_joined_in_one_text(release):
    with pytest.raises(ValueError, match=r"one text, .sex=M,age<40., or ask one at a time"):
        release.model.answer(["sex=M", "age<40"])
    with pytest.raises(ValueError, match=r"report\.html in the folder that save"):
        release.report("page.html")


def test_rows_are_completed_and_checked_from_a_frame(release):
    partial = pd.DataFrame({"age": [10, None, 70], "sex": ["M", "F", None]})
    codes = {"age": [0, -1, 2], "sex": [1, 0, -1]}
    for name, column in release.model.complete(partial).items():
        np.testing.assert_array_equal(column, release.model.complete(codes)[name])
    ours = release.model.check_rows(FRAME)
    coded = {name: DOMAIN.attribute(name).encode(FRAME[name]) for name in DOMAIN}
    assert ours == release.model.check_rows(coded)
    with pytest.raises(ValueError, match="1 values of 'sex' are not in its domain"):
        release.model.complete(pd.DataFrame({"sex": ["M", "Zaphod"]}))
