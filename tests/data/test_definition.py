"""The holder's definition of a table: which domains follow from it, and what becomes of rows outside."""

import numpy as np
import pandas
import pytest

from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import ROWS_OUTSIDE, TableDefinition
from pgmjax.data.domain import Domain

WIDE = Domain(
    {
        "age": {"bins": [0, 20, 40, 60, 80]},
        "sex": {"labels": ["f", "m", "x"], "missing": True},
        "rooms": 4,
    }
)
NARROWER = [
    Domain({"sex": {"labels": ["m", "x", "f"], "missing": "?"}}),
    Domain({"age": {"bins": [0, 40, 80]}, "rooms": 4}),
    Domain(
        {"age": {"bins": [20, 40, 60], "clip": True}, "sex": {"labels": ["x", "f", "m"], "missing": True}}
    ),
    Domain({"age": {"bins": [-10, 20, 90]}}),
    Domain({"rooms": {"bins": [0, 2, 9]}}),
    Domain({"rooms": {"labels": [3, 2, 1, 0]}}),
]


def frame(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "age": rng.choice([0, 5, 19.5, 20, 33, 40, 59.9, 60, 79], rows),
            "sex": rng.choice(np.array(["f", "m", "x", None], dtype=object), rows),
            "rooms": rng.integers(4, size=rows),
            "weight": rng.integers(4, size=rows),
        }
    )


@pytest.mark.parametrize("domain", NARROWER, ids=str)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_merged_codes_are_those_of_reading_by_the_other_domain(tmp_path, domain, kind):
    """Independent truth: the table read by the narrower domain directly."""
    table, path = frame(), tmp_path / f"t.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    direct = Dataset.read(path, domain)
    held = direct.under(TableDefinition(WIDE))
    assert held.registered and not direct.registered and held.domain == domain
    cliques = [(name,) for name in domain] + [tuple(domain)]
    for one, two in zip(direct.marginals(cliques), held.marginals(cliques), strict=True):
        assert np.array_equal(one, two)
    assert held.count() == len(table)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"size": 3}, "'size' is not in the domain with which this table was registered"),
        ({"sex": {"labels": ["f", "m"], "missing": True}}, "must have a place for each value"),
        ({"sex": {"labels": ["f", "m", "x"]}}, "has a bucket for missing values"),
        ({"age": {"bins": [0, 30, 80]}}, "must lie on edges of those .* registered: [0-9, ]+[.] "),
        ({"age": {"bins": [0, 40, 60]}}, "must reach from end to end"),
        ({"age": 80}, "give it bins here"),
        ({"rooms": 3}, "lacks 1 of its 4"),
    ],
)
def test_other_domains_are_refused_whatever_the_records_are(tmp_path, spec, said):
    messages = []
    for seed in (1, 2):
        frame(rows=5 * seed, seed=seed).to_csv(tmp_path / "t.csv", index=False)
        try:
            data = Dataset.read(tmp_path / "t.csv", Domain(spec))
        except ValueError:  # no such column in the header
            data = Dataset.from_columns(Domain(spec), {name: [0] for name in spec})
        with pytest.raises(ValueError, match=said) as caught:
            data.under(TableDefinition(WIDE))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_weights_are_the_holder_s(tmp_path):
    frame().to_csv(tmp_path / "t.csv", index=False)
    definition = TableDefinition(WIDE, "weight", 3)
    domain = Domain({"rooms": 4})
    own = Dataset.read(tmp_path / "t.csv", domain, weights="weight", max_weight=3)
    table = frame()
    weighted = table.groupby("rooms")["weight"].sum().tolist()
    assert own.under(definition).marginals([("rooms",)])[0].tolist() == weighted
    plain = Dataset.read(tmp_path / "t.csv", domain).under(definition)
    assert not plain.weighted
    assert plain.marginals([("rooms",)])[0].tolist() == table.groupby("rooms").size().tolist()
    for weights, bound in (("age", 3), ("weight", 4)):
        other = Dataset.read(tmp_path / "t.csv", domain, weights=weights, max_weight=bound)
        with pytest.raises(ValueError, match="registered with the weights 'weight' and max_weight 3"):
            other.under(definition)
    with pytest.raises(ValueError, match="registered without weights"):
        own.under(TableDefinition(WIDE))


OUTSIDE = pandas.DataFrame({"age": [5, 25, 99, -1], "sex": ["f", "other", "m", "m"], "weight": [1, 2, 2, 9]})
SMALL = Domain({"age": {"bins": [0, 20, 40]}, "sex": {"labels": ["f", "m"], "missing": True}})
SETTLED = {  # the counts [age, sex] that are left, by hand
    "clip": None,  # text cannot be clipped
    "missing": None,  # age has no bucket for missing values
    "drop": [[1, 0, 0], [0, 0, 0]],
}


@pytest.mark.parametrize("rows_outside", ROWS_OUTSIDE)
@pytest.mark.parametrize("way", ["csv", "parquet", "frame"])
def test_rows_outside(tmp_path, way, rows_outside):
    def made(domain, **options):
        path = tmp_path / f"t.{way}"
        if way == "frame":
            return Dataset.from_frame(domain, OUTSIDE, rows_outside=rows_outside, **options)
        OUTSIDE.to_csv(path, index=False) if way == "csv" else OUTSIDE.to_parquet(path)
        data = Dataset.read(path, domain, rows_outside=rows_outside, **options)
        data.validate()
        return data

    if SETTLED[rows_outside] is None:
        with pytest.raises(ValueError, match=r"rows? lies? outside its"):
            made(SMALL)
    else:
        assert made(SMALL).marginals([("age", "sex")])[0].tolist() == SETTLED[rows_outside]
    if rows_outside == "clip":
        ages = made(Domain({"age": {"bins": [0, 20, 40]}}), weights="weight", max_weight=3)
        assert ages.marginals([("age",)])[0].tolist() == [1 + 3, 2 + 2]
    if rows_outside == "missing":
        assert made(Domain({"sex": SMALL.attribute("sex")})).marginals([("sex",)])[0].tolist() == [1, 2, 1]
    if rows_outside == "drop":
        weighed = made(SMALL, weights="weight", max_weight=3)
        assert weighed.count() == 1


def test_what_is_dropped_does_not_depend_on_what_is_asked(tmp_path):
    """A record is dropped for any value of the definition's domain, also one that is not asked for."""
    OUTSIDE.to_csv(tmp_path / "t.csv", index=False)
    definition = TableDefinition(SMALL, rows_outside="drop")
    asked = Dataset.read(tmp_path / "t.csv", Domain({"sex": SMALL.attribute("sex")}))
    assert asked.under(definition).marginals([("sex",)])[0].tolist() == [1, 0, 0]


def test_codes_and_weights_are_clipped():
    data = Dataset.from_columns(
        Domain({"a": 3}), {"a": [-4, 0, 2, 77]}, weights=[9, 1, -1, 2], max_weight=2, rows_outside="clip"
    )
    assert data.marginals([("a",)])[0].tolist() == [2 + 1, 0, 0 + 2]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (({"a": 2},), TypeError),
        ((WIDE, "w"), ValueError),
        ((WIDE, None, 3), ValueError),
        ((WIDE, "age", 3), ValueError),
        ((WIDE, "w", 0), ValueError),
        ((WIDE, "w", 2**31), ValueError),
        ((WIDE, None, None, "keep"), ValueError),
    ],
)
def test_bad_definitions(given, error):
    with pytest.raises(error):
        TableDefinition(*given)


def test_a_definition_is_read_back():
    for definition in (TableDefinition(WIDE), TableDefinition(WIDE, "weight", 7, "missing")):
        assert TableDefinition.from_dict(definition.to_dict()) == definition
