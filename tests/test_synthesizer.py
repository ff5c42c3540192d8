"""The synthesizer: frames in, frames of the same kind out; what is refused before any budget is spent."""

import datetime
import decimal
import io
import itertools
import pickle

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
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
    assert fitted.sample(50, seed=3).equals(fitted.sample(50, seed=3, method="round"))
    assert not fitted.sample(50, seed=3).equals(fitted.sample(50, seed=3, method="multinomial"))


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
    elif kind == "duckdb":
        assert (rows.columns, rows.types) == (frame.columns, frame.types)
    else:
        assert found.schema == table.schema
    assert len(found["age"]) == 100


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_number_of_rows_that_come_out_is_that_of_the_release(kind):
    """Where the number of records is private, none of their neighbours' numbers is told by a default."""
    codes = [0, 0, 1] * 40
    synth = made(epsilon="0.05", relation="add-remove", insecure_seed=3, mechanism="marginals")
    synth.fit(kind({"a": codes}), {"a": {"size": 2}}, show_progress=False)
    estimated = max(1, round(synth.release.model.total))
    assert estimated != len(codes)  # of this seed
    assert len(synth.sample()) == len(synth.sample(method="multinomial")) == estimated


class Stream:
    """A frame of another library, of which only the Arrow C stream is known."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


NULLABLE = pa.table(
    {
        "whole": pa.array([0, 1, None] * 40, pa.int32()),
        "text": pa.array(["x", None, "y"] * 40),
        "flag": pa.array([True, None, False] * 40),
        "day": pa.array([None, DAYS[0], DAYS[1]] * 40, pa.date32()),
        "moment": pa.array([None, 1_580_000_000, 1_590_000_000] * 40, pa.timestamp("s", "Europe/Paris")),
    }
)
OF_NULLABLE = {
    "whole": {"size": 2, "missing": True},
    "text": {"labels": ["x", "y"], "missing": True},
    "flag": {"labels": [False, True], "missing": True},
    "day": {"from": "2020-01-01", "to": "2020-12-31", "step": "month", "missing": True},
    "moment": {"from": "2020-01-01", "to": "2020-12-31", "step": "month", "missing": True},
}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "duckdb"])
def test_missing_values_keep_the_type_of_their_column(kind):
    frame = {
        "pandas": lambda: NULLABLE.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": lambda: pl.from_arrow(NULLABLE).with_columns(pl.col("text").cast(pl.Enum(["x", "y"]))),
        "pyarrow": lambda: NULLABLE,
        "duckdb": lambda: duckdb.from_arrow(NULLABLE),
    }[kind]()
    synth = made(insecure_seed=5, mechanism=short("mst")).fit(frame, OF_NULLABLE, show_progress=False)
    rows = synth.sample(300)
    kinds = {"pandas": "dtypes", "polars": "schema", "pyarrow": "schema", "duckdb": "types"}[kind]
    before, after = getattr(frame, kinds), getattr(rows, kinds)
    assert before.equals(after) if kind == "pandas" else before == after
    found = pa.table(rows.arrow()) if kind == "duckdb" else pa.table(rows)
    assert all(40 < column.null_count < 180 for column in found.columns)  # a third; standard error 8


RARE = ["cook"] * 500 + ["baker"] * 500 + ["hangman"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"job": pd.Categorical(RARE)}),
        pl.DataFrame({"job": pl.Series(RARE, dtype=pl.Enum(sorted(set(RARE))))}),
        pl.DataFrame({"job": pl.Series(RARE, dtype=pl.Categorical)}),
        pa.table({"job": pa.array(RARE).dictionary_encode()}),
    ],
    ids=["pandas", "enum", "categorical", "pyarrow"],
)
def test_categories_are_those_of_the_domain_and_not_of_the_table(frame):
    """A label that one record alone has is kept secret by discovery: it must not come back in a type."""
    synth = made(epsilon=8, delta="1e-6", relation="add-remove", insecure_seed=1, mechanism="marginals")
    synth.fit(frame, discover="0.5", show_progress=False)
    labels = list(synth.release.domain.attribute("job").labels)
    assert labels == ["baker", "cook"]
    rows = synth.sample(40)
    assert type(rows) is type(frame)
    if isinstance(frame, pd.DataFrame):
        assert list(rows["job"].cat.categories)[:2] == labels
    file = io.BytesIO()
    rows.write_parquet(file) if isinstance(frame, pl.DataFrame) else pq.write_table(pa.table(rows), file)
    for shown in (pickle.dumps(rows), file.getvalue(), repr(rows).encode(), pickle.dumps(synth)):
        assert b"cook" in shown and b"hangman" not in shown


def test_a_domain_label_without_records_is_a_category_too():
    """The order and number of categories do not tell which labels occur either."""
    domain = {"job": {"labels": ["judge", "cook", "baker"]}, "level": {"labels": [3, 1, 2]}}
    shown = []
    for jobs, levels in ((["cook", "baker"], [1, 2]), (["judge", "baker"], [3, 2])):
        given = pd.DataFrame(
            {"job": pd.Categorical(jobs * 50), "level": pd.Categorical(levels * 50, ordered=True)}
        )
        rows = made(insecure_seed=1).fit(given, domain, show_progress=False).sample(9)
        shown.append([(list(kind.categories), kind.ordered) for kind in rows.dtypes])
    assert shown == [[(["judge", "cook", "baker"], False), ([3, 1, 2], True)]] * 2


def test_a_fitted_synthesizer_keeps_no_record():
    value = 1.23456789
    given = pd.DataFrame({"x": np.r_[np.full(200, 0.5), value], "price": [decimal.Decimal("7.123456")] * 201})
    domain = {"x": {"bins": [0, 1, 2]}, "price": {"bins": [0, 5, 10]}}
    synth = made().fit(given, domain, show_progress=False)
    kept = pickle.dumps(synth)
    assert np.float64(value).tobytes() not in kept and pickle.loads(kept).sample(3).shape == (3, 2)
    assert not any(isinstance(each, decimal.Decimal) for each in synth.sample(50)["price"])  # its digits tell


def test_whole_numbers_beyond_53_bits_stay_what_they_are():
    keys = [2**60 + 1, 2**60 + 3]
    domain = {"key": {"labels": keys, "missing": True}}
    for wanted in ("Int64", "int64[pyarrow]"):
        given = pd.DataFrame({"key": pd.array([*keys, None] * 30, dtype=wanted)})
        rows = made(insecure_seed=5).fit(given, domain, show_progress=False).sample(90)
        assert rows["key"].dtype == given["key"].dtype and set(rows["key"].dropna()) == set(keys)


def short(name):
    """A mechanism whose fits end soon: for tests of types, not of numbers."""
    estimator = pj.Estimator(max_steps=60, progress=False)
    return pj.mechanisms.names()[name](5, "replace-one", estimator=estimator)


def test_rows_have_the_marginals_of_the_model():
    """Rows are read back by the domain's own rules: every pair, against the model asked on its own."""
    synth = made(insecure_seed=3).fit(FRAME, DOMAIN, show_progress=False)
    rows, model = synth.sample(20_000, seed=11), synth.release.model
    codes = pj.adapters.arrow.rows_from_arrow(pa.Table.from_pandas(rows), model.domain)
    pairs = list(itertools.combinations(model.domain, 2))
    checked = model.check_rows(codes, pairs)
    assert len(checked) == 15 and max(check.standard_errors for check in checked) < 3
    shuffled = {**codes, "job": np.random.default_rng(0).permutation(codes["job"])[::-1]}
    bent = {**shuffled, "job": np.where(codes["age"] > 2, 1, codes["job"])}  # the check has teeth
    assert max(check.standard_errors for check in model.check_rows(bent, pairs)) > 30


def test_discovery_and_units():
    people = FRAME[["age", "job"]].assign(who=np.arange(ROWS) // 2)
    synth = made(epsilon=8, delta="1e-6", relation="add-remove", unit=pj.Unit("who", 2))
    synth.fit(people, discover="0.3", show_progress=False)
    rows = synth.sample(40)
    assert list(rows) == ["age", "job"] and rows["age"].dtype == np.int16
    assert synth.release.mechanism == "auto" and synth.release.unit == pj.Unit("who", 2)
    assert "protects one who" in repr(synth) and "protects one row" in repr(made())
    assert "all records of one who (at most 2 count)" in synth.statement()
    for shown, whom in ((synth, "one who"), (made(unit=None), "one row")):
        assert whom in shown._repr_html_()
    assert "all records of one who" in synth._repr_html_() and "Not fitted" in made()._repr_html_()
    with pytest.raises(ValueError, match="relation"):
        made(relation="neither")


def test_answers_and_files(fitted, tmp_path):
    exact = int((FRAME["job"] == "cook").sum())
    found = fitted.query("job=cook")
    assert found.determined and found.low < found.high
    assert abs(found.low + found.high - 2 * exact) < 4 * (found.high - found.low)  # eight standard errors
    assert not fitted.query("job=cook,age<20,member=True").determined
    assert f"(95 % interval {found.low:,.1f} to {found.high:,.1f})" in str(found)
    vague = fitted.query("job=cook,age<20,member=True")
    assert "(no interval: it rests on the model alone)" in str(vague) and vague.share_low is None
    fitted.report(tmp_path / "r.html")
    assert "<h2" in (tmp_path / "r.html").read_text()
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


def test_a_domain_without_columns_is_refused():
    with pytest.raises(ValueError, match=r"describes no column.*Nothing was spent"):
        pj.Synthesizer(epsilon=1, relation="add-remove").fit(FRAME, {})
    with pytest.raises(ValueError, match="Nothing was spent"):
        pj.Synthesizer(epsilon=1, relation="add-remove").fit(FRAME, {"job": {"labels": []}})


def test_a_second_fit_is_refused_before_it_spends(fitted):
    before = fitted.release
    with pytest.raises(ValueError, match=r"already fitted.*Nothing was spent"):
        fitted.fit(FRAME, DOMAIN)
    assert fitted.release is before
    again = pj.Synthesizer(**fitted.get_params())
    with pytest.raises(ValueError, match="not fitted yet"):
        again.query("job=cook")


def test_a_ledger_gives_the_same_answers_under_the_same_key(tmp_path):
    domain = pj.Domain({"age": DOMAIN["age"]})
    frame = FRAME[["age"]]
    with pj.privacy.Ledger.create(tmp_path / "l.db") as ledger:
        digest = ledger.digest_of(pj.Dataset.from_frame(domain, frame))
        ledger.register("t", epsilon=8, relation="replace-one", digest=digest, domain=domain)
        first, second = (made().fit(frame, domain, ledger=ledger, key="one").release for _ in range(2))
        assert first.ledger["key"] == "one" and first.ledger["charge"] == second.ledger["charge"]
        same = zip(first.measurements, second.measurements, strict=True)
        assert all(np.array_equal(a.values, b.values) for a, b in same)
        with pytest.raises(pj.privacy.BudgetExceeded):
            made().fit(frame, domain, ledger=ledger, key="two")
    with pytest.raises(ValueError, match="ledger"):
        made().fit(frame, domain, key="one")


def test_the_rule_of_auto():
    def measured(frame, domain):
        found = made().fit(frame, domain, show_progress=False).release
        assert found.mechanism == "auto"
        return {m.clique for m in found.measurements if m.query == pj.queries.marginal(m.clique)}

    assert measured(FRAME[["age"]], {"age": DOMAIN["age"]}) == {("age",)}
    wide = pd.DataFrame({name: [1, 2, 3] for name in "abc"})  # three records: noise drowns every pair
    assert measured(wide, {key: {"size": 1500} for key in "abc"}) == {("a",), ("b",), ("c",)}
    many = pd.DataFrame({key: np.arange(9000) % 9 for key in "abcd"})
    pairs = set(itertools.combinations("abcd", 2))
    assert measured(many, {key: {"size": 9} for key in "abcd"}) == pairs
    own = pj.mechanisms.MWEM(5, "replace-one", rounds=2)
    assert made(mechanism=own).fit(wide, {key: {"size": 9} for key in "abc"}).release.mechanism == "mwem"
    seeded = made(insecure_seed=1, mechanism="marginals")
    assert not seeded.fit(wide, {key: {"size": 9} for key in "abc"}).release.secure
    both = made(insecure_seed=1, mechanism=own).fit(wide, {key: {"size": 9} for key in "abc"})
    assert both.release.seed == 1 and not both.release.secure


def frame(**columns):
    return pd.DataFrame(columns)


AGE = {"age": {"min": 0, "max": 99, "step": 20}}
BAD = [
    (lambda: frame(age=[1, 2]), {}, "The possible values of the columns are unknown"),
    (lambda: frame(age=[1, 2]), {"domain": AGE, "discover": 0.1}, "leave discover out"),
    (lambda: frame(age=[1], sex=[1]), {"domain": AGE}, "The domain lacks 'sex'"),
    (lambda: frame(sex=[1]), {"domain": {**AGE, "sex": 2}}, "The frame lacks 'age'"),
    (lambda: frame(age=[]), {"domain": AGE}, "has no row"),
    (lambda: pd.DataFrame({0: [1]}), {"domain": AGE}, "Every column name must be a non-empty string, got 0"),
    (
        lambda: pd.DataFrame([[1, 2]], columns=["age", "age"]),
        {"domain": AGE},
        "Several columns have the same name: age",
    ),
    (lambda: pd.DataFrame([[1]], columns=[" "]), {"domain": AGE}, "must be a non-empty string"),
    (lambda: frame(age=[1, "x", 4.5, b"secret"]), {"domain": AGE}, "1 row.*2 rows"),
    (lambda: frame(age=[1]).set_index(pd.Index(["p7"])), {"domain": AGE}, "reset_index"),
    (lambda: frame(age=[1, 2]).set_index(pd.Index([5, 7], name="id")), {"domain": AGE}, "reset_index"),
    (lambda: [[1]], {"domain": AGE}, "must be a pandas, polars"),
    (lambda: frame(age=[1, 500]), {"domain": AGE}, "1 row lies outside"),
    (lambda: frame(age=[1]), {"domain": "none.yaml"}, "none.yaml"),
    (lambda: frame(age=["a", "b"]), {"discover": 0.1}, "delta=1e-6"),
    (lambda: frame(age=[1]), {"discover": 2}, "discover.*2"),
    (lambda: frame(age=[1])["age"], {"domain": AGE}, "must have named columns, got a Series"),
    (lambda: pl.LazyFrame({"age": [1]}), {"domain": AGE}, r"is lazy: call collect\(\) first"),
    (lambda: frame(age=[1]), {"domain": 5}, "a domain file or its content, got int"),
    (lambda: frame(age=[1]), {"domain": AGE, "workload": "age"}, "workload.*Workload.*str"),
    (lambda: frame(age=[1, 10**30]), {"domain": AGE}, "1 row lies outside"),
    (lambda: frame(age=[1, "secret"]), {"domain": AGE}, "1 row"),
    (lambda: frame(age=["1", "secret"]), {"domain": AGE}, "1 row"),
    (
        lambda: duckdb.sql("select cast(x as int) as age from (values ('1'), ('secret')) t(x)"),
        {"domain": AGE},
        "failed with ConversionException",
    ),
    (lambda: pa.table({"age": [["secret"]]}), {"domain": AGE}, "cast them to numbers, dates or text"),
    (lambda: pl.DataFrame({"age": []}), {"domain": AGE}, "has no row"),
    (
        lambda: pa.table([[1], [2]], names=["age", "age"]),
        {"domain": AGE},
        "Several columns have the same name: age",
    ),
    (
        lambda: pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("age", "x")])),
        {"domain": AGE},
        "must be a non-empty string",
    ),
]


def said_by(error):
    """Everything that an error carries: text, arguments and attributes, and those of what it came from."""
    found = []
    while error is not None:
        found += [str(error), repr(error.args), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return " ".join(found)


@pytest.mark.parametrize(("make", "given", "said"), BAD, ids=[said[:30] for *_, said in BAD])
def test_what_is_refused(make, given, said):
    synth = made()
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=said) as failure:
        synth.fit(make(), **given)
    assert "secret" not in said_by(failure.value) and "p7" not in said_by(failure.value)
    assert synth._release is None


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_how_many_rows_can_be_drawn(fitted, n):
    with pytest.raises((ValueError, TypeError), match=r"^n "):
        fitted.sample(n)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mechanism": "mstt"}, "'auto'.*'aim'.*'mst'"),
        ({"relation": "neither"}, "relation"),
        ({"epsilon": -1}, "epsilon"),
        ({"unit": pj.Unit("who", 2)}, "no column named 'who', which Unit names"),
        ({"unit": pj.Unit("age", 2)}, "'age'"),
        ({"mechanism": pj.mechanisms.MST(1, "add-remove")}, "must be those given beside it"),
        (
            {
                "insecure_seed": 1,
                "mechanism": pj.mechanisms.MST(
                    5, "replace-one", backend=pj.privacy.SeededBackend(2, insecure=True)
                ),
            },
            "already has a noise backend: leave insecure_seed out",
        ),
    ],
)
def test_bad_settings(given, said):
    with pytest.raises(ValueError, match=said):
        made(**given).fit(FRAME[["age"]], AGE)


def test_a_unit_is_no_text():
    with pytest.raises(TypeError, match=r"must be a pgmjax.Unit such as .*, or None for one row, got str"):
        made(unit="age").fit(FRAME[["age"]], AGE)


def test_what_was_refused_is_shown():
    made = pj.Synthesizer(epsilon=1, relation="add-remove")
    with pytest.raises(ValueError, match="relation"):
        made.set_params(relation="nearly")
    assert "nearly" in repr(made) and "nearly" in made._repr_html_()
