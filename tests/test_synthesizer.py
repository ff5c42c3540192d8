"""The synthesizer: frames in, frames of the same kind out; what is refused before any budget is spent."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pgmjax as pj
from pgmjax.cli import main

ROWS = 1200
RNG = np.random.default_rng(0)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in RNG.integers(0, 300, ROWS)]
FRAME = pd.DataFrame(
    {
        "job": pd.Categorical(RNG.choice(["baker", "cook"], ROWS), categories=["cook", "baker", "judge"]),
        "age": RNG.integers(18, 90, ROWS).astype("int16"),
        "height": RNG.normal(170, 10, ROWS).astype("float32"),
        "day": pd.to_datetime(DAYS),
        "member": RNG.random(ROWS) < 0.5,
        "children": pd.array(RNG.choice([0, 1, 2, None], ROWS), dtype="Int64"),
    }
)
DOMAIN = {
    "job": {"labels": ["baker", "cook", "judge"]},
    "age": {"min": 0, "max": 99, "step": 20},
    "height": {"bins": [100, 150, 170, 190, 250]},
    "day": {"from": "2020-01-01", "to": "2020-12-31", "step": "month"},
    "member": {"labels": [False, True]},
    "children": {"size": 4, "missing": True},
}


def made(**given):
    return pj.Synthesizer(**{"epsilon": 5, "relation": "replace-one", **given})


@pytest.fixture(scope="module")
def fitted():
    return made().fit(FRAME, DOMAIN, show_progress=False)


def test_pandas_comes_out_as_it_went_in(fitted):
    rows = fitted.sample()
    assert isinstance(rows, pd.DataFrame) and len(rows) == ROWS
    assert rows.dtypes.to_dict() == FRAME.dtypes.to_dict() and list(rows) == list(FRAME)
    assert set(rows["job"]) <= {"baker", "cook", "judge"} and rows["age"].between(0, 99).all()
    assert rows["day"].between("2020-01-01", "2020-12-31").all() and rows["children"].isna().any()
    assert (rows["day"] == rows["day"].dt.normalize()).all()
    assert abs(rows["member"].mean() - FRAME["member"].mean()) < 0.1  # standard error about 0.02
    assert fitted.sample(7, seed=3).equals(fitted.sample(7, seed=3))
    assert not fitted.sample(50, seed=3).equals(fitted.sample(50, seed=4))


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "duckdb", "stream"])
def test_other_frames_come_out_as_they_went_in(kind):
    table = pa.table(
        {
            "job": pa.array(FRAME["job"].astype(str)).dictionary_encode(),
            "age": pa.array(FRAME["age"]),
            "day": pa.array(DAYS, pa.date32()),
        }
    )
    frame = {
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
        "duckdb": lambda: duckdb.from_arrow(table),
        "stream": lambda: Stream(table),
    }[kind]()
    domain = {name: DOMAIN[name] for name in table.column_names}
    rows = made().fit(frame, domain, show_progress=False).sample(100)
    assert isinstance(rows, type(frame)) or kind == "stream"
    found = rows.arrow() if kind == "duckdb" else rows
    found = pa.table(found) if kind == "duckdb" else found
    if kind == "polars":
        assert rows.schema == frame.schema
    elif kind != "duckdb":  # which has no dictionaries
        assert found.schema == table.schema
    assert len(found["age"]) == 100 and found.schema if kind != "polars" else True


class Stream:
    """A frame of another library, of which only the Arrow C stream is known."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_discovery_and_units():
    people = FRAME[["age", "job"]].assign(who=np.arange(ROWS) // 2)
    synth = made(epsilon=8, delta="1e-6", relation="add-remove", unit=pj.Unit("who", 2))
    synth.fit(people, discover="0.3", show_progress=False)
    rows = synth.sample(40)
    assert list(rows) == ["age", "job"] and rows["age"].dtype == np.int16
    assert synth.release.mechanism == "mst" and synth.release.unit == pj.Unit("who", 2)
    assert "protects one who" in repr(synth) and "protects one row" in repr(made())


def test_answers_and_files(fitted, tmp_path):
    exact = int((FRAME["job"] == "cook").sum())
    found = fitted.query("job=cook")
    assert found.determined and found.low < found.high
    assert abs(found.low + found.high - 2 * exact) < 4 * (found.high - found.low)  # eight standard errors
    assert not fitted.query("job=cook,age<20,member=True").determined
    fitted.report(tmp_path / "r.html")
    assert "How good it is" in (tmp_path / "r.html").read_text()
    fitted.save(tmp_path / "r")
    again = pj.load(tmp_path / "r")
    assert np.allclose(again.model.marginal(("job",)), fitted.release.model.marginal(("job",)))
    assert main(["query", str(tmp_path / "r"), "job=cook"]) == 0
    for act in (lambda: fitted.save(tmp_path / "r"), lambda: fitted.report(tmp_path / "r.html")):
        with pytest.raises(ValueError, match="exists"):
            act()


def test_arguments_are_as_in_scikit_learn(fitted):
    from sklearn.base import clone

    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() and copy.set_params(epsilon="1/3").epsilon == "1/3"
    with pytest.raises(ValueError, match=r"call fit\(frame, domain\) first"):
        copy.sample()
    with pytest.raises(ValueError, match="no argument 'eps'"):
        copy.set_params(eps=1)
    with pytest.raises(TypeError, match="epsilon"):
        pj.Synthesizer(relation="add-remove")
    with pytest.raises(TypeError, match="relation"):
        pj.Synthesizer(epsilon=1)


def test_the_rule_of_auto():
    assert (
        made().fit(FRAME[["age"]], {"age": DOMAIN["age"]}, show_progress=False).release.mechanism
        == "marginals"
    )
    wide = pd.DataFrame({name: [1, 2, 3] for name in "abc"})
    synth = made().fit(wide, {key: {"size": 1500} for key in "abc"}, show_progress=False)
    assert synth.release.mechanism == "mst"
    own = pj.mechanisms.MWEM(5, "replace-one", rounds=2)
    assert made(mechanism=own).fit(wide, {key: {"size": 9} for key in "abc"}).release.mechanism == "mwem"
    seeded = made(insecure_seed=1, mechanism="marginals")
    assert not seeded.fit(wide, {key: {"size": 9} for key in "abc"}).release.secure


def frame(**columns):
    return pd.DataFrame(columns)


AGE = {"age": {"min": 0, "max": 99, "step": 20}}
BAD = [
    (lambda: frame(age=[1, 2]), {}, "Nothing says what the columns may hold"),
    (lambda: frame(age=[1, 2]), {"domain": AGE, "discover": 0.1}, "leave discover out"),
    (lambda: frame(age=[1], sex=[1]), {"domain": AGE}, "the domain lacks sex"),
    (lambda: frame(sex=[1]), {"domain": {**AGE, "sex": 2}}, "the frame lacks age"),
    (lambda: frame(age=[]), {"domain": AGE}, "has no row"),
    (lambda: pd.DataFrame({0: [1]}), {"domain": AGE}, "Every column needs a name that is a text, got 0"),
    (
        lambda: pd.DataFrame([[1, 2]], columns=["age", "age"]),
        {"domain": AGE},
        "Several columns are called age",
    ),
    (lambda: pd.DataFrame([[1]], columns=[" "]), {"domain": AGE}, "needs a name"),
    (
        lambda: frame(age=[1, "x", 4.5, b"secret"]),
        {"domain": AGE},
        "Column 'age' has values of several types",
    ),
    (lambda: frame(age=[1]).set_index(pd.Index(["p7"])), {"domain": AGE}, "reset_index"),
    (lambda: frame(age=[1, 2]).set_index(pd.Index([5, 7], name="id")), {"domain": AGE}, "reset_index"),
    (lambda: [[1]], {"domain": AGE}, "must be one of pandas, polars"),
    (lambda: frame(age=[1, 500]), {"domain": AGE}, "1 rows lie outside"),
    (lambda: frame(age=[1]), {"domain": "none.yaml"}, "none.yaml"),
    (lambda: frame(age=["a", "b"]), {"discover": 0.1}, "without a delta"),
    (lambda: frame(age=[1]), {"discover": 2}, r"share must be a share in \(0, 1\)"),
]


@pytest.mark.parametrize(("make", "given", "said"), BAD, ids=[said[:30] for *_, said in BAD])
def test_what_is_refused(make, given, said):
    synth = made()
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=said) as failure:
        synth.fit(make(), **given)
    assert "secret" not in str(failure.value) and "p7" not in str(failure.value)
    assert synth._release is None


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_how_many_rows_can_be_drawn(fitted, n):
    with pytest.raises((ValueError, TypeError), match="n must be"):
        fitted.sample(n)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mechanism": "mstt"}, "one of aim"),
        ({"relation": "neither"}, "relation"),
        ({"epsilon": -1}, "epsilon"),
        ({"mechanism": pj.mechanisms.MST(1, "add-remove")}, "must have the synthesizer's epsilon"),
    ],
)
def test_bad_settings(given, said):
    with pytest.raises(ValueError, match=said):
        made(**given).fit(FRAME[["age"]], AGE)
