"""Perturbed codes come in blocks, checked.

A product of attributes as one category.
"""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import local as co
from pgmjax.local import codes as responses
from pgmjax.local.table import columns_of, load
from pgmjax.privacy import SeededBackend
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.response import KaryResponse

LAW = KaryResponse(4, 0.25)


def test_blocks_cover_all_rows_in_order(monkeypatch):
    monkeypatch.setattr(responses, "BLOCK_ROWS", 4)
    codes = np.arange(10) % 4
    found = list(co.PerturbedCodes(LAW, codes).blocks())
    assert [start for start, _ in found] == [0, 4, 8]
    assert np.array_equal(np.concatenate([block for _, block in found]), codes)


def test_a_function_gives_blocks_anew():
    table = co.PerturbedCodes(LAW, lambda: iter([np.array([0, 1]), np.array([3])]))
    for _ in range(2):
        assert [(start, block.tolist()) for start, block in table.blocks()] == [
            (0, [0, 1]),
            (2, [3]),
        ]


def test_a_mapped_file_is_read_in_place(tmp_path):
    codes = (np.arange(5000) % 4).astype(np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    mapped = co.PerturbedCodes(LAW, np.load(tmp_path / "codes.npy", mmap_mode="r"))
    assert co.group_histograms(mapped).counts.tolist() == [[1250] * 4]


@pytest.mark.parametrize(
    ("codes", "error", "words"),
    [
        ([0.5], TypeError, "float64"),
        ([[0, 1]], ValueError, "one axis"),
        ([0, 4], ValueError, r"0\.\.3"),
        ([-1], ValueError, r"0\.\.3"),
        (lambda: [np.zeros((2, 2), int)], ValueError, "one axis"),
    ],
)
def test_wrong_codes_are_refused(codes, error, words):
    with pytest.raises(error, match=words):
        list(co.PerturbedCodes(LAW, codes).blocks())


@pytest.mark.parametrize("in_files", [False, True])
def test_a_released_table_is_answered_from(in_files, tmp_path):
    """What the mechanism releases, in memory and from its folder: within 6 deviations, seeded."""
    domain = pj.Domain({"a": 3, "b": 2})
    columns = {"a": np.arange(30_000) % 3, "b": np.arange(30_000) // 15_000}
    mechanism = pj.mechanisms.RandomizedResponse(
        2, pj.Relation.REPLACE_ONE, universe="joint", backend=SeededBackend(3, insecure=True)
    )
    table = mechanism.perturb(pj.Dataset.from_columns(domain, columns), row_order_is_public=True)
    if in_files:
        table.save(tmp_path / "table")
        table = load(tmp_path / "table")
    universe = co.Universe(domain, table.column.attributes)
    asked = pj.queries.Product({"a": pj.queries.identity(), "b": pj.queries.point(1)})
    answers = co.answer_queries(table, universe, asked)
    assert np.all(np.abs(answers.value - 1 / 6) < 6 * answers.stddev) and answers.stddev.max() < 0.01
    halves = co.group_histograms(table, columns["b"]).answer(np.arange(6.0)[None])
    assert abs(halves.value[0] - universe.encode(columns).mean()) < 6 * halves.stddev[0]


def test_bits_of_unary_encodings_are_refused():
    mechanism = pj.mechanisms.RandomizedResponse(
        2, pj.Relation.REPLACE_ONE, encoding="optimal-unary", backend=SeededBackend(3, insecure=True)
    )
    data = pj.Dataset.from_columns(pj.Domain({"a": 3}), {"a": np.arange(3000) % 3})
    with pytest.raises(ValueError, match='encoding="direct"'):
        co.group_histograms(mechanism.perturb(data, row_order_is_public=True))


def streams(groups, encodings=None):
    """The same responses twice: to be read once from the choke point, and as a table of the columns."""
    domain = pj.Domain({"a": 3, "b": 2})
    data = pj.Dataset.from_columns(domain, {"a": np.arange(999) % 3, "b": np.arange(999) // 500})
    given = []
    for _ in range(2):
        backend = SeededBackend(3, insecure=True)
        table = PrivateTable(data, pj.Relation.REPLACE_ONE, pj.privacy.Budget(9), backend)
        given.append(table.respond(groups, epsilons=[1] * len(groups), encodings=encodings))
    stream, other = given
    return stream, co.PerturbedTable(domain, columns_of(other), other.rows, False, 3)


ROW_WISE = {
    "grouped": lambda it: co.group_histograms(it, np.arange(999) % 2).answer(np.eye(6), useless="answer"),
    "queries": lambda it: co.answer_queries(
        it, co.Universe(pj.Domain({"a": 3, "b": 2})), pj.queries.marginal(["a", "b"]), useless="answer"
    ),
    "rows": lambda it: co.answer_rows(it, np.ones((999, 6)) * np.arange(6), useless="answer"),
}


@pytest.mark.parametrize("ask", ROW_WISE.values(), ids=ROW_WISE)
def test_a_stream_of_responses_is_answered_from_like_its_table(ask):
    stream, table = streams([["a", "b"]])
    one, two = ask(stream), ask(table)
    assert np.array_equal(one.value, two.value) and np.array_equal(one.variance, two.variance)
    with pytest.raises(ValueError, match="responses"):
        ask(stream)


@pytest.mark.parametrize("encodings", [None, ["optimal-unary", "direct"], ["symmetric-unary"] * 2])
def test_marginals_of_a_stream_are_those_of_its_table(encodings):
    stream, table = streams([["a"], ["b"]], encodings)
    assert (stream.domain, stream.groups, stream.distributions) == (
        table.domain,
        table.groups,
        table.distributions,
    )
    cliques = [["b", "a"], ["a"]]
    for one, two in zip(co.marginals_of(stream, cliques), table.marginals(cliques), strict=True):
        assert np.array_equal(one.sums, two.sums) and one.factors == two.factors


@pytest.mark.parametrize(
    ("groups", "encodings", "words"),
    [
        ([["a"], ["b"]], None, r"got \('a',\) in 'direct', \('b',\) in 'direct'"),
        ([["a"]], ["optimal-unary"], r"got \('a',\) in 'optimal-unary'"),
    ],
)
def test_a_stream_that_is_no_codes_is_refused_and_not_read(groups, encodings, words):
    stream, _ = streams(groups, encodings)
    with pytest.raises(ValueError, match=words):
        co.group_histograms(stream)
    assert len(list(stream)) == 1


@pytest.mark.parametrize(
    "ask",
    [
        co.group_histograms,
        lambda table: co.answer_rows(table, np.zeros((3, 4))),
        lambda table: co.answer_queries(table, co.Universe(pj.Domain({"a": 4})), []),
        lambda table: co.PerturbedGraph.of(table, 4),
    ],
)
def test_something_else_is_refused_everywhere(ask):
    with pytest.raises(TypeError, match="attributes distribution and codes, got ndarray"):
        ask(np.zeros(3))


def test_something_else_is_refused():
    with pytest.raises(TypeError, match="attributes distribution and codes"):
        co.PerturbedCodes.of(np.zeros(3))
    with pytest.raises(TypeError, match="KaryResponse"):
        co.PerturbedCodes("distribution", [0])


DOMAIN = pj.Domain({"sex": 2, "age": 5, "race": 3})


def test_codes_are_row_major_and_come_back():
    universe = co.Universe(DOMAIN, ["race", "sex"])
    columns = {name: np.random.default_rng(0).integers(0, DOMAIN[name], 50) for name in ("race", "sex")}
    codes = universe.encode(columns)
    assert np.array_equal(codes, np.ravel_multi_index((columns["race"], columns["sex"]), (3, 2)))
    assert universe.size == 6 and tuple(universe.domain) == ("race", "sex")
    for name, column in universe.decode(codes).items():
        assert np.array_equal(column, columns[name])


def test_bytes_do_not_overflow():
    domain = pj.Domain({"a": 200, "b": 200, "c": 50000})
    universe = co.Universe(domain)
    top = {name: np.array([domain[name] - 1], np.uint16) for name in domain}
    assert universe.encode(top).tolist() == [universe.size - 1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: co.Universe("d"), TypeError, "Domain"),
        (lambda: co.Universe(pj.Domain({"a": 1})), ValueError, "2 to 2\\^31 cells, got 1"),
        (lambda: co.Universe(pj.Domain({"a": 2**16, "b": 2**16})), ValueError, "choose other"),
        (lambda: co.Universe(DOMAIN, ["height"]), ValueError, "height"),
        (lambda: co.Universe(DOMAIN).encode({"sex": [0]}), ValueError, "no column for the attribute 'age'"),
        (lambda: co.Universe(DOMAIN, ["sex"]).encode({"sex": [0.0]}), TypeError, "integer"),
        (
            lambda: co.Universe(DOMAIN, ["sex"]).encode({"sex": [0, 2]}),
            ValueError,
            r"'sex' must lie in 0\.\.1",
        ),
        (
            lambda: co.Universe(DOMAIN, ["sex", "age"]).encode({"sex": [0], "age": [0, 1]}),
            ValueError,
            r"\[1, 2\]",
        ),
        (lambda: co.Universe(DOMAIN, ["sex"]).encode({"sex": ["a private word"]}), TypeError, "'sex'.*<U14"),
        (lambda: co.Universe(DOMAIN, ["sex"]).column([0], "height"), ValueError, "height"),
    ],
)
def test_wrong_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
