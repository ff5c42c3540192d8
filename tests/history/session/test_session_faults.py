"""Sessions where something fails: nothing is spent for what cannot be measured, and a session goes on."""

import contextlib
from fractions import Fraction

import pytest

from pgmjax import Dataset, Domain
from pgmjax.history import History, Session
from pgmjax.history.bayes.distribution import NoiseSum
from pgmjax.history.bayes.inference import Inference
from pgmjax.history.session import session as sessions
from pgmjax.history.session.state import AccuracyRequirement, SessionState, interval, query_of
from pgmjax.measurements.inputs import with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy import private_table
from pgmjax.privacy.gate import TableReadError
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import Product, marginal, point, total
from tests.history.session.sessions import COUNTS, DOMAIN, ages, begin, table


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "b.ledger") as made:
        yield made


def fail(*_):
    raise ValueError("less memory than before")


def test_a_marginal_beyond_all_memory_is_refused_before_anything_is_spent(tmp_path):
    names = [f"x{k}" for k in range(12)]
    domain = Domain(dict.fromkeys(names, 40))
    data = Dataset.from_columns(domain, {name: [0, 1] for name in names})
    with Ledger.create(tmp_path / "b.ledger") as books:
        digest = books.digest_of(data)
        books.register(
            "t", epsilon=1, relation="add-remove", digest=digest, research=True, domain=data.domain
        )
        backend = SeededBackend(1, insecure=True)
        session = Session.open(books, data, cap=1, relation="add-remove", backend=backend)
        wide = Product({name: point(0) for name in names})
        with pytest.raises(ValueError, match="'x0'"):
            session.ask(wide, 40, 0.2)
        with pytest.raises(ValueError, match="'x0'"):
            session.buy(wide, "0.1")
        assert len(session._log.records) == 1 and session.cost == 0
        assert session.ask(Product({"x0": total()}), 40, 0.2).source == "measured"


def test_any_failure_while_measuring_counts_as_an_attempt_and_ends_in_void(ledger, monkeypatch):
    session = begin(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(private_table, "check_memory", fail)
        for _ in range(11):
            with pytest.raises(ValueError, match="less memory"):
                session.ask(ages(0), 40, 0.2)
        begun = begin(ledger)  # gives it up
    assert [record["kind"] for record in begun._log.records] == ["session", "bought", "void"]
    assert session.ask(ages(1), 40, 0.2).answered and begin(ledger).cost == session.cost
    assert next(session.answers()).source == "refused" and ledger.verify().ok


def test_without_its_table_a_paid_answer_that_is_missing_is_left_alone(ledger, monkeypatch):
    session = begin(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "marginals", lambda *_: 1 / 0)
        with pytest.raises(TableReadError):
            session.ask(ages(0), 40, 0.2)
    reader = Session.read(ledger)
    with pytest.raises(ValueError, match="open the session with its table"):
        reader.ask(ages(1), 40, 0.2)
    assert list(reader.answers()) == [] and reader._log.is_open
    session.refresh()
    assert [record["kind"] for record in session._log.records] == ["session", "bought", "noise"]
    assert reader.ask(ages(0), 40, 0.2).source == "history"


def test_what_others_stored_while_one_measures_is_taken_up(ledger, monkeypatch):
    """Two that complete the same step, as where there are no locks: one of them finds it given up."""
    session = begin(ledger)
    marginals = Dataset.marginals

    def given_up(data, wanted):
        session._log.charge.record(2, b'{"kind":"void"}')
        return marginals(data, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "marginals", given_up)
        answer = session.ask(ages(0), 40, 0.2)
    assert answer.source == "refused" and "cost stays" in answer.reason and answer.epsilon > 0


def test_opening_and_refreshing_wait_for_their_turn(ledger, monkeypatch):
    begin(ledger)
    held = []

    @contextlib.contextmanager
    def turn(path):
        held.append(path)
        yield
        held.append("given up")

    monkeypatch.setattr(sessions, "turn", turn)
    session = begin(ledger)
    assert held == [ledger.path, "given up"]
    session.refresh()
    session.ask(ages(0), 40, 0.2)  # takes it once, and not again to complete
    assert held == [ledger.path, "given up"] * 3
    Session.read(ledger).refresh()
    assert len(held) == 6, "a reader writes no file"


def test_a_session_is_read_by_its_account_where_two_tables_have_one_of_that_name(ledger):
    begin(ledger).ask(ages(0), 40, 0.2)
    near = COUNTS + 1
    ledger.register(
        "u",
        epsilon=2,
        relation="add-remove",
        digest=ledger.digest_of(table(near)),
        research=True,
        domain=table(near).domain,
        other_people=True,
    )
    begin(ledger, counts=near)
    with pytest.raises(ValueError, match=r"'t', 'u'\. Name one with account"):
        Session.read(ledger)
    assert Session.read(ledger, account="t").cost > 0 == Session.read(ledger, account="u").cost
    with pytest.raises(ValueError, match=r"'session'.*'v'"):
        Session.read(ledger, account="v")


@pytest.mark.parametrize("delta", [1e-12, 1e-16, 1e-30, 1e-300])
def test_a_tiny_delta_is_met_and_answered_again(ledger, delta):
    session = begin(ledger, cap=40, epsilon=50)
    shown = [session.ask(ages(*codes), 40, delta) for codes in ((0,), (0,), (0, 1))]
    shown.append(session.ask(ages(1), 200, delta))  # a sum of two noises
    low, high = shown[0].interval
    distribution = session.history.distributions[0]
    assert distribution.outside((high - low) / 2) <= delta < distribution.outside((high - low) / 2 - 1)
    assert [answer.source for answer in shown] == ["measured", "history", "measured", "history"]
    assert high - low <= 80 and list(Session.read(ledger).answers()) == shown


def test_a_delta_beyond_floats_is_refused_before_anything_is_spent(ledger):
    session = begin(ledger)
    with pytest.raises(ValueError, match="delta must be at least 1e-300, got 1e-301"):
        session.ask(ages(0), 40, 1e-301)
    assert len(session._log.records) == 1


@pytest.mark.parametrize("half_width", [0.1, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_a_demand_below_the_step_of_the_noise_is_charged_once(ledger, half_width, delta):
    session = begin(ledger, cap=7, epsilon=8)
    sources = [session.ask(ages(0), half_width, delta).source for _ in range(3)]
    assert sources == ["measured", "history", "history"]


def test_the_shortcut_is_right_about_sums_of_coarse_noises():
    """No interval is shorter than the shortcut says, over scales, coefficients and half-widths."""
    for scale in (0.2, 0.5, 1.0, 3.0):
        for coefficients in ([1.0], [1.0, 1.0], [1.0, -0.5, 0.25], [1.0, 0.001], [3.0, 1.0, 1.0]):
            answer = Inference(0.0, NoiseSum(coefficients, scale))
            for delta in (0.05, 0.3, 0.7):
                low, high = interval(answer, delta)
                requirement = AccuracyRequirement(ages(0), (high - low) / 2, delta)
                assert requirement.is_met_by(answer) == (low, high)


def test_large_marginals_are_bought_and_too_many_rows_are_not(tmp_path):
    domain = Domain({"a": 100, "b": 80, "c": 3})
    data = Dataset.from_columns(domain, {"a": [0, 1], "b": [2, 3], "c": [0, 2]})
    with Ledger.create(tmp_path / "b.ledger") as books:
        digest = books.digest_of(data)
        books.register(
            "t", epsilon=1, relation="add-remove", digest=digest, research=True, domain=data.domain
        )
        backend = SeededBackend(1, insecure=True)
        session = Session.open(books, data, cap=1, relation="add-remove", backend=backend)
        session.buy(marginal(["a", "b"]), "0.1")
        assert session.history.num_rows == 8000 and session.cost == Fraction(1, 10)
        with pytest.raises(ValueError, match="32,000 noisy answers"):
            session.buy(marginal(["a", "b", "c"]), "0.1")
        assert session.cost == Fraction(1, 10)


def test_an_insecure_session_says_so_wherever_its_answers_go(ledger, tmp_path):
    session = begin(ledger, cap="0.1", seed=5)
    answers = [session.ask(ages(0), 60, 0.2) for _ in range(2)] + [session.ask(ages(1), 1, 0.2)]
    assert [answer.source for answer in answers] == ["measured", "history", "refused"]
    assert not any(answer.secure for answer in answers) and list(session.answers()) == answers
    assert answers[0].to_dict()["secure"] is False and str(answers[0]).endswith("for research only")
    assert session.seed == 5 and not session.history.secure
    session.history.save(tmp_path / "h")
    kept = History.load(tmp_path / "h")
    assert kept.secure is False
    assert not History(DOMAIN, kept.measurements, relation="add-remove").secure  # each answer says so itself
    unsaid = [with_inputs(measurement, ()) for measurement in kept.measurements]
    fresh = History(DOMAIN, unsaid, relation="add-remove")
    assert fresh.secure and not fresh.append(kept).secure and fresh.append(fresh).secure
    with pytest.raises(ValueError, match="noise that can be repeated and protects nobody"):
        begin(ledger, cap="0.1", seed=None, given=kept, name="other")
    secure = begin(ledger, cap="0.1", seed=None, given=fresh, name="other")
    answer = secure.ask(ages(0), 60, 0.2)
    assert answer.secure and secure.history.secure and secure.seed is None and "research" not in str(answer)
    with pytest.raises(TypeError, match="True or False"):
        History(DOMAIN, [], secure=1)


def test_files_are_secure_only_by_their_word(tmp_path):
    import json

    tmp_path = tmp_path / "h"
    path = tmp_path / "history.json"
    measured = LinearMeasurement.released(ages(0), [3], DiscreteLaplace(2.0))
    History(DOMAIN, [measured]).save(tmp_path)
    told = json.loads(path.read_text())
    for secure, expected in ((True, True), (None, False), ("yes", False)):
        path.write_text(json.dumps({**told, "secure": secure}))
        assert History.load(tmp_path).secure is expected
    del told["secure"]
    path.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="lacks 'secure'"):
        History.load(tmp_path)


def test_given_answers_are_whole(ledger):
    distribution = DiscreteLaplace(2.0)
    for value in (3.5, 2.0**53 + 0.0):
        measured = LinearMeasurement(("age",), [value], distribution.stddev, ages(0), "laplace", distribution)
        given = History(DOMAIN, [measured], relation="add-remove")
        if value == 3.5:
            with pytest.raises(ValueError, match="whole answers"):
                begin(ledger, given=given)
        else:
            assert begin(ledger, given=given).history.values.tolist() == [value]


def test_free_answers_are_those_recorded_and_follow_from_the_records(ledger, monkeypatch):
    session = begin(ledger)
    shown = [session.ask(ages(*codes), 60, 0.2) for codes in ((0, 1), (2,), (0, 1), (0, 1, 2))]
    assert [answer.source for answer in shown].count("history") >= 1
    records, state = session._log.records, SessionState.of(session._log.records[:1])
    for step in range(1, len(records)):
        if records[step]["kind"] == "free":
            record = records[step]
            requirement = AccuracyRequirement(query_of(record), record["half_width"], record["delta"])
            known, ends = state.free(requirement)
            assert [known.value, known.stddev, *ends] == [
                record["value"],
                record["stddev"],
                *record["interval"],
            ]
        state.add(records[step], records[step - 1])
    monkeypatch.setattr(SessionState, "free", lambda *_: "less exactly, by one rounding")
    assert list(session.answers()) == shown
