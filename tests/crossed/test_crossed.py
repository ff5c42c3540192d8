"""Everything crossed: each mechanism with each command on each kind of table, in cells that say what holds.

A cell works, and then its answers, its cost and whom it counts are checked; or it stands in `REFUSED` with
the words that its message must hold, and is refused before anything is spent. Every mechanism meets every
command and every context, and every command every context; the other cells are behind `slow`.
"""

import html
import itertools
import json
import os
import re
import shutil
from fractions import Fraction

import numpy as np
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax import mechanisms, sweeps
from pgmjax.cli import perturb as cli_perturb
from pgmjax.data.relation import Relation, Unit
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.published import read_measurements
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload
from pgmjax.sweeps.store import COLUMNS
from tests.crossed import world as worlds
from tests.crossed.world import (
    CONTEXTS,
    DELTA,
    EPSILON,
    FRAMES,
    MECHANISMS,
    NO_DISCOVERY,
    NO_WEIGHTS,
    ONLY_REPLACE,
    PAIRS,
    PERTURB,
    World,
    call,
    good,
    has,
)

CELLS = 8.5 / 2.12  # half-widths: noise of the heaviest tail, Laplace's, is beyond with probability 6e-6
SECTIONS = [
    "Release under differential privacy",
    "How good it is",
    "What is promised",
    "What was spent",
    "Explore",
    "How well the model fits the noisy answers",
    "Query the release",
    "Made with",
]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return World.at(tmp_path_factory.mktemp("crossed"))


# --- what was released -----------------------------------------------------------------------------------


def own_joint(world, mechanism, context):
    """The released model's counts of every cell, summed by hand for any question."""
    return np.asarray(world.saved(mechanism, context).model.marginal(("a", "b", "c")), float)


def own(world, mechanism, context, clique):
    """A pair's or a column's counts by what the mechanism answers with."""
    saved = world.saved(mechanism, context)
    if saved.record["answered_by"] == "learner":
        found = saved.predictor().predict(marginal(clique)).reshape(saved.model.domain.shape_of(clique))
        return np.maximum(found, 0.0)
    gone = tuple(axis for axis, name in enumerate("abc") if name not in clique)
    return own_joint(world, mechanism, context).sum(axis=gone)


def check_answers(found, low, high, expected, true):
    """The released estimator's answers, moved into intervals at most, which hold the true counts."""
    found, expected = np.ravel(found), np.ravel(expected)
    close = np.isclose(found, expected, rtol=1e-6, atol=1e-6)
    if low is None:
        assert close.all(), "what is not determined is the released estimator's answer"
        return
    low, high, true = np.ravel(low), np.ravel(high), np.ravel(true)
    assert ((low <= found) & (found <= high)).all()
    assert (close | np.isclose(found, low) | np.isclose(found, high)).all()
    middle, half = (low + high) / 2, (high - low) / 2
    assert (np.abs(true - middle) <= CELLS * half + 1e-9).all(), "the interval is of other records"


def told_population(said, world, mechanism, context):
    """Every answer says what it is of."""
    words = {"weights": "weight", "unit": "at most 2 records of each id"}
    whole = " ".join(said) if isinstance(said, list) else said
    assert "records" in whole
    assert all(word in whole for kind, word in words.items() if has(context, kind))
    left_out = "So counts may be smaller than those of the whole table" in whole
    relation = world.relation(mechanism)
    found = has(context, "discovery") and relation == "add-remove"
    capped = has(context, "weights") and has(context, "clip")  # weights beyond the bound count as the bound
    assert left_out == (has(context, "unit", "drop") or found or capped)


# --- commands --------------------------------------------------------------------------------------------


def query(world, mechanism, context, tmp_path):
    """Conditions, as text and as JSON."""
    place = world.out(mechanism, context)
    texts = ["a=x", "a=y,b=yes", "b=no"]
    said = good("query", place, *texts, "--json").json
    true = world.counts(mechanism, context) if mechanism != PERTURB else worlds.truth(context)
    asked = [(("a",), (0,)), (("a", "b"), (1, 1)), (("b",), (0,))]
    for answer, (clique, cell) in zip(said["answers"], asked, strict=True):
        gone = tuple(axis for axis, name in enumerate("abc") if name not in clique)
        exact = true.sum(axis=gone)[cell]
        if mechanism == PERTURB:
            assert abs(answer["estimate"] - exact) <= 6 * answer["stddev"]
            assert answer["interval"][0] <= answer["estimate"] <= answer["interval"][1]
            continue
        low, high = answer["interval"] or (None, None)
        expected = own(world, mechanism, context, clique)[cell]
        check_answers(answer["estimate"], low, high, expected, exact)
        assert answer["determined"] == (low is not None)
        learned = world.saved(mechanism, context).record["answered_by"] == "learner"
        assert ("trained model" in answer["rests_on"]) == learned
        if answer["share_interval"]:
            assert answer["share_interval"][0] <= answer["share"] <= answer["share_interval"][1]
        if has(context, "counted") and low is not None:
            frame, names = FRAMES[context], dict(zip(clique, cell, strict=True))
            all_of = [frame[name] == worlds.LABELS[name][code] for name, code in names.items()]
            low, high = answer["whole_table"]["interval"]
            assert abs(sum(np.logical_and.reduce(all_of)) - (low + high) / 2) <= CELLS * (high - low) / 2
    lines = good("query", place, *texts).out.splitlines()
    of_answers = [line for line in lines if not line.startswith("  Of the whole table: between")]
    counted = sum(1 for answer in said["answers"] if answer.get("whole_table"))
    assert len(lines) - len(of_answers) == counted
    for line, answer in zip(of_answers, said["answers"], strict=False):
        assert line.startswith(f"{answer['query']}: {answer['estimate']:,.1f} of ")
    told_population(lines, world, mechanism, context)


def query_marginal(world, mechanism, context, tmp_path):
    """A pair as a table: the numbers of the JSON, with the intervals of the answers that were released."""
    place = world.out(mechanism, context)
    said = good("query", place, "--marginal", "c,b", "--json").json
    lines = [line.split("\t") for line in good("query", place, "--marginal", "c,b").out.splitlines()]
    cells = list(itertools.product(*said["values"].values()))
    assert [tuple(line[:2]) for line in lines[1 : 1 + len(cells)]] == cells
    column = lines[0].index("estimate")
    shown = [float(line[column]) for line in lines[1 : 1 + len(cells)]]
    np.testing.assert_allclose(shown, np.ravel(said["estimate"]), atol=0.0501)
    told_population([line[0] for line in lines[1 + len(cells) :]], world, mechanism, context)
    true = worlds.truth(context) if mechanism == PERTURB else world.counts(mechanism, context)
    true = true.sum(axis=0).T
    if mechanism == PERTURB:
        assert (np.abs(np.array(said["estimate"]) - true) <= 6 * np.array(said["stddev"])).all()
        return
    expected = own(world, mechanism, context, ("b", "c")).T
    check_answers(said["estimate"], said.get("low"), said.get("high"), expected, true)
    released = world.saved(mechanism, context).answers().to_pandas()
    released = released[released["query"] == "b,c"]
    assert bool(released["determined"].all()) == said["determined"]
    if world.saved(mechanism, context).record["answered_by"] in ("engine", "learner"):
        of_release = released["estimate"].to_numpy().reshape(true.T.shape).T
        np.testing.assert_allclose(np.array(said["estimate"]), of_release, rtol=1e-6, atol=1e-6)
        assert set(released["rests_on"]) == {said["rests_on"]}


def query_json(world, mechanism, context, tmp_path):
    """What the command printed is what it wrote: cost, relation, noise, and whom it counts."""
    place = world.out(mechanism, context)
    printed = json.loads((world.folder / f"{place.name}.printed").read_text())
    record = json.loads((place / "release.json").read_text())
    assert printed.pop("out") == str(place) and printed == record
    assert record["epsilon"] == EPSILON and record["secure"] is False and record["seed"] == 3
    check_cost(record, mechanism, context)
    assert record["relation"] == world.relation(mechanism) and "NOT FOR PUBLICATION" in record["statement"]
    unit = {"column": "id", "max_records": 2} if has(context, "unit") else None
    assert record["unit"] == unit and ("id" in record["statement"].split() or unit is None)
    if mechanism != PERTURB:
        assert record["weighted"] == has(context, "weights")
        assert record["max_weight"] == (3 if has(context, "weights") else 1)
        assert not record.get("missing") and record["population"]["discovered"] == has(context, "discovery")
        assert record["population"]["phrase"] in record["statement"]
    told_population(record["population"]["sentences"], world, mechanism, context)
    said = good("query", place, "a=x", "--json").json
    assert said["population"]["phrase"] and said["total"] == record["total"]


def check_cost(record, mechanism, context):
    """All of the budget and no more; DualQuery makes as many rounds as it allows."""
    spent = record["spent"]
    discovered = has(context, "discovery")
    if mechanism == "dual-query":
        assert 0 < float(eval(spent["epsilon"])) <= float(EPSILON)
    else:
        assert spent["epsilon"] == EPSILON
    assert spent["delta"] == (DELTA if discovered else "0") and ("rho" in spent) == discovered


def report(world, mechanism, context, tmp_path):
    """The page has every section, says what is spent and counted, and shows the model's counts."""
    if mechanism == PERTURB:  # which has no model to draw
        files = {each.name for each in world.out(mechanism, context).iterdir()}
        assert files == {"release.json", "table", "responses.parquet"}
        return
    page = (world.out(mechanism, context) / "report.html").read_text()
    check_page(page, world.saved(mechanism, context), own_joint(world, mechanism, context))


def check_page(page, saved, joint):
    titles = [html.unescape(title) for title in re.findall(r"<h[12]>(.*?)</h[12]>", page)]
    assert [title for title in SECTIONS if title not in titles] == []
    assert "could not be made" not in page and "Not for publication" in page
    assert html.escape(saved.record["population"]["phrase"]) in page
    data = json.loads(re.search(r'<script type="application/json" id="x-data">(.*?)</script>', page)[1])
    assert [column["name"] for column in data["columns"]] == ["a", "b", "c"]
    counts = np.array(data["one"][0]["count"])
    expected = saved.estimates.report(marginal(["a"]), joint.sum(axis=(1, 2))).estimates
    np.testing.assert_allclose(counts, expected, atol=0.0501)


def prior_of(world, mechanism, context, tmp_path):
    """A next release that measures one column: the rest given that column is as it was before."""
    next_release = [*next_words(world, mechanism, context), "--from", world.out(mechanism, context)]
    said = good(*next_release, "--out", tmp_path / "next", "--json").json
    check_inputs(said, mechanism)
    check_follows(tmp_path / "next", own_joint(world, mechanism, context))


def check_inputs(said, earlier):
    """The earlier release is named as an input, and its cost is in the sum."""
    (prior,) = [each for each in said["inputs"] if each["role"] == "prior" and each["cost"]]
    cost, whole = Fraction(prior["cost"]["epsilon"]), Fraction(EPSILON)
    assert repr(earlier) in prior["name"]
    assert cost == whole or (earlier == "dual-query" and cost < whole)  # it may spend less
    assert Fraction(said["spent"]["epsilon"]) == whole + cost


def check_follows(place, before):
    """The model differs from the earlier one by a product of functions of the measured attributes alone.

    That is the form of the model of least relative entropy to the earlier one among those of its marginals.
    """
    model = pj.load(place).model
    found = np.asarray(model.marginal(("a", "b", "c")), float)
    measured = {each.clique for each in read_measurements(place / "measurements.parquet", model.domain)}
    there = (found > 1e-3) & (before > 1e-3)
    codes = dict(zip("abc", np.nonzero(there), strict=True))
    columns = []
    for clique in measured:
        shape = model.domain.shape_of(clique)
        cell = np.ravel_multi_index(tuple(codes[name] for name in clique), shape)
        columns.append(np.eye(int(np.prod(shape)))[cell])
    moved = np.log(found[there] / before[there])
    design = np.hstack(columns)
    left = moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]
    assert np.abs(moved).max() > 1e-6 > 100 * np.abs(left).max()


def next_words(world, mechanism, context, by="marginals"):
    """The words of a next release of one column, over the domain of the first."""
    if not has(context, "discovery"):
        words = world.words(by, context, workload=world.folder / "one.json")
    else:
        of = "unit" if has(context, "unit") else "plain"  # the costs of one unit add up
        words = world.words(by, of, workload=world.folder / "one.json")
        words[words.index("--domain") + 1] = world.out(mechanism, context) / "domain.json"
    if mechanism in ONLY_REPLACE:
        words[words.index("--relation") + 1] = "replace-one"  # as the earlier one
    return [*words, "--insecure-seed", "4"]


def prior_to(world, mechanism, context, tmp_path):
    """A release of this mechanism that follows an earlier one where it measures nothing."""
    words = next_words(world, "marginals", context, by=mechanism)
    said = good(*words, "--from", world.out("marginals", context), "--out", tmp_path / "next", "--json").json
    check_inputs(said, "marginals")
    check_follows(tmp_path / "next", own_joint(world, "marginals", context))


def add_rows(world, mechanism, context, tmp_path):
    """More rows of the same columns and values, which are others, and follow the model."""
    place = world.copy(mechanism, context, "rows")
    said = good("release", place, "--add-rows", "2000", "--json").json
    before = (world.out(mechanism, context) / "synthetic.parquet").read_bytes()
    assert said["rows"] == 2000 and said["seed"] == 1
    assert (place / "synthetic.parquet").read_bytes() == before
    rows = parquet.read_table(place / "synthetic-2.parquet").to_pandas()
    assert list(rows.columns) == ["a", "b", "c"] and len(rows) == 2000
    model = world.saved(mechanism, context).model
    joint = own_joint(world, mechanism, context)
    drawn = np.zeros(joint.shape)
    names = [model.domain.attribute(name).code_names() for name in "ab"]
    for place_of, count in rows.groupby(["a", "b"], dropna=False).size().items():
        cell = tuple(
            known.index("missing" if value is None or value != value else value)
            for known, value in zip(names, place_of, strict=True)
        )
        drawn[cell] += count / joint.shape[2]
    # rows are dealt clique by clique, so that a pair of columns is off by a few rows to a cell at most
    expected = joint.sum(axis=2) * 2000 / joint.sum()
    assert np.abs(drawn.sum(axis=2) - expected).max() <= 2 * joint.size


def load(world, mechanism, context, tmp_path):
    """Python reads what the command wrote: model, answers, noisy counts, and what else there is."""
    place, saved = world.out(mechanism, context), world.saved(mechanism, context)
    assert saved.missing == {} and saved.model.total == saved.record["total"]
    said = good("query", place, "--marginal", "a,b", "--json").json
    assert saved.report(marginal(["a", "b"])).estimates.tolist() == np.ravel(said["estimate"]).tolist()
    assert pj.load(place / "model").total == saved.model.total
    measured = read_measurements(place / "measurements.parquet", saved.model.domain)
    assert sum(each.values.size for each in measured) == saved.measurements().num_rows
    assert (saved.transcript() is None) == (mechanism != "dual-query") == bool(measured)
    assert (place / "predictor").exists() == (mechanism == "mldp")
    assert sorted(set(saved.answers()["query"].to_pylist())) == [",".join(pair) for pair in PAIRS]
    assert {each.clique for each in saved.distances()} <= set(PAIRS)


def look(world, mechanism, context, tmp_path):
    """The holder sees the table as the release counted it; the release stays as it was."""
    place = world.out(mechanism, context)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    words = ["--weights", "w"] if has(context, "weights") else []
    given = ["look", place, world.folder / f"{context}.csv", *words, "--target", "b"]
    told = good(*given, "--json", "--out", tmp_path / "look.html").json
    true, clique = world.counts(mechanism, context), ("a", "b")
    assert told["records"] == true.sum()
    fitted = own_joint(world, mechanism, context)
    far = np.abs(fitted.sum(axis=2) / fitted.sum() - true.sum(axis=2) / true.sum()).sum() / 2
    (pair,) = [each for each in told["distances"] if set(each["clique"]) == set(clique)]
    assert pair["model"] == pytest.approx(far)
    intervals = told["intervals"]
    assert not intervals["number"] or intervals["held"] / intervals["number"] > 0.7
    assert (told["training"] is None) == has(context, "weights")
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert (tmp_path / "look.html").read_text().startswith("<!-- NOT FOR PUBLICATION")


def fit(world, mechanism, context, tmp_path):
    """The noisy counts fitted again are met as well as by the released model, to within the gap."""
    place = world.out(mechanism, context)
    total = json.loads((place / "release.json").read_text())["total"]
    domain = (place if has(context, "discovery") else world.folder) / "domain.json"
    words = ["fit", place / "measurements.parquet", "--domain", domain, "--out", tmp_path / "fit", "--json"]
    words += ["--total", total, "--rows", "10", "--regularisation", "none"]
    said, saved = good(*words).json, world.saved(mechanism, context)
    again = pj.load(tmp_path / "fit" / "model")
    measured = read_measurements(place / "measurements.parquet", again.domain)

    def distance(model):
        asked = [np.ravel(m.query.apply(np.asarray(model.marginal(m.clique)))) for m in measured]
        pairs = zip(asked, measured, strict=True)
        return sum(np.square((one - m.flat_values()) / m.row_stddevs()).sum() / 2 for one, m in pairs)

    assert distance(again) <= distance(saved.model) + said["fit"]["gap"] + 1e-3 * (1 + distance(saved.model))
    assert said["population"] == saved.record["population"]
    asked = good("query", tmp_path / "fit", "a=x", "--json").json
    assert asked["population"] == saved.record["population"] and asked["answers"][0]["estimate"] > 0
    opened = pj.load(tmp_path / "fit")
    assert opened.report(marginal(["a"])).estimates[0] == asked["answers"][0]["estimate"]
    assert good("release", tmp_path / "fit", "--add-rows", "5", "--json").json["rows"] == 5


def synthesizer(world, mechanism, context, tmp_path):
    """A frame in, a frame of the same columns and types out; answers, report and folder agree."""
    options = {"useless": "answer"} if mechanism == "randomized-response" else {}
    relation, delta = world.relation(mechanism), world.delta(context)
    kind = mechanisms.names()[mechanism] if mechanism != PERTURB else mechanism
    chosen = kind(epsilon=EPSILON, relation=relation, delta=delta, **options) if options else mechanism
    unit = Unit("id", 2) if has(context, "unit") else None
    asked = {"epsilon": EPSILON, "relation": relation, "delta": delta, "unit": unit}
    synth = pj.Synthesizer(mechanism=chosen, insecure_seed=3, **asked)
    frame, found = FRAMES[context], has(context, "discovery")
    synth.fit(frame, None if found else worlds.DOMAIN, discover=0.3 if found else None, show_progress=False)
    rows = synth.sample(30)
    assert list(rows.columns) == ["a", "b", "c"] and len(rows) == 30
    assert rows["b"].dtype == frame["b"].dtype
    synth.save(tmp_path / "saved")
    synth.report(tmp_path / "report.html")
    saved = pj.load(tmp_path / "saved")
    check_cost(saved.record, mechanism, context)
    check_page((tmp_path / "report.html").read_text(), saved, np.asarray(saved.model.marginal(tuple("abc"))))
    answer = synth.query("a=y,b=yes")
    (said,) = good("query", tmp_path / "saved", "a=y,b=yes", "--json").json["answers"]
    assert said["estimate"] == pytest.approx(answer.estimate, rel=1e-9)
    assert said["interval"] == (None if answer.low is None else pytest.approx([answer.low, answer.high]))
    told_population(str(answer), world, mechanism, context)
    with pytest.raises(ValueError, match="get_params"):
        synth.fit(frame, None if found else worlds.DOMAIN)


def ledger(world, mechanism, context, tmp_path):
    """Charged once; the same release again is free and the same; the chain has no fault."""
    book = world.ledger(mechanism, context, "book")
    words = [*world.words(mechanism, context, ledger=True), "--ledger", book]
    first, again = (good(*words, "--out", tmp_path / name, "--json").json for name in ("one", "two"))
    assert first["secure"] is True and first["seed"] is None
    check_cost(first, mechanism, context)
    (account,) = good("ledger", "show", book, "--json").json["accounts"]
    key = "rho" if has(context, "discovery") else "epsilon"
    spent = eval(account["spent"])
    # a charge is what was reserved, of which a mechanism may leave a part
    assert float(eval(first["spent"][key])) <= spent * (1 + 1e-9)
    assert spent <= 8 if mechanism == "dual-query" else spent == pytest.approx(eval(first["spent"][key]))
    assert len(account["charges"]) == 1 and account["charges"][0]["secure"] is True
    assert first["ledger"]["account"] == "t" and first["ledger"]["charge"] == again["ledger"]["charge"] == 1
    same = "release.json" if mechanism == PERTURB else "measurements.parquet"
    if mechanism != PERTURB:
        assert (tmp_path / "one" / same).read_bytes() == (tmp_path / "two" / same).read_bytes()
    assert first["total"] == again["total"] and first["population"] == again["population"]
    asked = good("query", tmp_path / "one", "a=x,b=no", "--json").out
    assert asked == good("query", tmp_path / "two", "a=x,b=no", "--json").out
    assert "no fault found" in good("ledger", "verify", book).out
    told_population(first["population"]["sentences"], world, mechanism, context)


def resume(world, mechanism, context, tmp_path):
    """Interrupted at its first fit, a run goes on from every answer that was paid for."""

    def interrupted(*given, **more):
        raise KeyboardInterrupt

    if mechanism == PERTURB:
        perturbed_interrupted(world, context, tmp_path, interrupted)
        return
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Estimator, "fit", interrupted)
        patch.setattr(pj.history.MaxEntropy, "fit", interrupted)
        said = call(*world.words(mechanism, context), "--insecure-seed", "3", "--out", out)
    if said.code == 2:
        raise worlds.CommandError(2, said.err)
    assert said.code == 130 and "--resume" in said.err and not out.exists()
    answers = {path.name: path.read_bytes() for path in (partial / "answers").iterdir()}
    measured = partial / "measurements.parquet"
    before = parquet.read_table(measured).to_pydict() if measured.is_file() else {}
    kept = tmp_path / "kept"
    shutil.copytree(partial, kept)
    record = good("release", "--resume", partial, "--json").json
    assert answers and not partial.exists() and sorted(os.listdir(tmp_path)) == ["kept", "out"]
    check_cost(record, mechanism, context)
    after = parquet.read_table(out / "measurements.parquet").to_pydict()
    for name, column in before.items():
        assert after[name][: len(column)] == column
    if mechanism == "dual-query":
        drawn = pj.load(out).transcript().drawn
        stored = [np.load(kept / "answers" / name) for name in sorted(answers)]
        assert sum(map(np.size, stored)) <= drawn.size and np.isin(np.concatenate(stored), drawn).all()


def perturbed_interrupted(world, context, tmp_path, interrupted):
    """Interrupted while the plain file of the answers is written, none of them is lost."""
    out = tmp_path / "out"
    words = [*world.words(PERTURB, context), "--insecure-seed", "3", "--out", out]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_perturb, "_write_responses", interrupted)
        said = call(*words)
    if said.code == 2:
        raise worlds.CommandError(2, said.err)
    assert said.code == 130 and ".partial" in said.err
    good(*words)
    asked = [good("query", each, "a=x,b=no", "--json").out for each in (out, world.out(PERTURB, context))]
    assert asked[0] == asked[1] and os.listdir(tmp_path) == ["out"]


def sweep(world, mechanism, context, tmp_path):
    """One cell: its errors are those of the same release with the same noise, by hand."""
    relation = world.relation(mechanism)
    more = {"unit": 'unit = "id"', "weights": 'weights = "w"', "drop": 'rows_outside = "drop"'}
    more |= {"clip": 'rows_outside = "clip"', "discovery": "discover = 0.3"}
    keys = "\n".join(more[kind] for kind in context.split("+") if kind in more)
    options = worlds.OPTIONS.get(mechanism, {})
    option = "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
    option = f"\n[mechanisms.options]\n{option}" if option else ""
    (tmp_path / "g.toml").write_text(
        f'[grid]\nname = "g"\ntrials = 1\nepsilons = [{EPSILON}]\nrelation = "{relation}"\n'
        f'[[tables]]\nname = "t"\npath = "{world.folder / context}.csv"\n'
        f'domain = "{world.folder / "domain.json"}"\n{keys}\n'
        f'[[workloads]]\nname = "2-way"\nall_kway = 2\n[[mechanisms]]\nname = "{mechanism}"\n{option}'
        "\n[estimator]\ntol = 1e-9\n"
    )
    grid = sweeps.SweepGrid.read(tmp_path / "g.toml")
    outcome = sweeps.run(grid, tmp_path / "r.duckdb")
    assert (outcome.total, outcome.ran, outcome.failed) == (1, 1, 0)
    with sweeps.ResultFile(tmp_path / "r.duckdb", read_only=True) as results:
        (row,) = results.rows(COLUMNS)
    assert row["status"] == "done" and row["mechanism"] == mechanism and row["epsilon"] == EPSILON
    made = mechanisms.names()[mechanism](
        epsilon=EPSILON,
        relation=Relation.parse(relation),
        backend=SeededBackend(row["seed"], insecure=True),
        estimator=Estimator(tol=1e-9, progress=False),
        **options,
    )
    domain = pj.Domain(worlds.DOMAIN)
    data = pj.Dataset.from_frame(domain, FRAMES[context])
    answers = made.run(data, Workload(PAIRS), show_progress=False).answers()
    exact = [worlds.truth(context).sum(axis=axis).ravel() for axis in (2, 1, 0)]
    errors = np.abs(np.concatenate(answers) - np.concatenate(exact))
    assert row["mean_absolute"] == pytest.approx(errors.mean(), abs=1e-3)
    assert row["largest"] == pytest.approx(errors.max(), abs=1e-3)


COMMANDS = {
    "query": query,
    "marginal": query_marginal,
    "json": query_json,
    "report": report,
    "prior of": prior_of,
    "prior to": prior_to,
    "add-rows": add_rows,
    "load": load,
    "look": look,
    "fit": fit,
    "Synthesizer": synthesizer,
    "ledger": ledger,
    "resume": resume,
    "sweep": sweep,
}

# --- what cannot be ---------------------------------------------------------------------------------------

REFUSED = [
    (["sweep"], [PERTURB], ["plain"], "the mechanism must be one of"),
    (["sweep"], None, ["unit"], "unknown key 'unit'"),
    (["sweep"], None, ["weights"], "unknown key 'weights'"),
    (["sweep"], None, ["drop", "clip"], "unknown key 'rows_outside'"),
    (["sweep"], None, ["discovery"], "unknown key 'discover'"),
    (["Synthesizer"], [PERTURB], None, "mechanism must be one of"),
    (["Synthesizer"], None, ["weights"], "The domain lacks 'w'"),
    (["Synthesizer"], None, ["drop", "clip"], "lie outside its bins"),
    (["prior to"], ["dual-query", "mldp", "maximum-entropy"], None, "cannot follow an earlier release"),
    (["prior to"], ["privbayes", "randomized-response"], None, "do not add up to one promise"),
    (None, [PERTURB], ["drop"], "rows-outside"),
    (["prior to"], [PERTURB], ["plain", "unit", "clip", "weights", "discovery"], "--from"),
    (["ledger"], ONLY_REPLACE, ["drop"], "replace-one"),
    (None, ONLY_REPLACE, ["drop"], "replace-one"),
    (None, [PERTURB], ["weights"], "leave out --weights"),
    (None, NO_WEIGHTS, ["weights"], "weight"),
    (None, [PERTURB], ["discovery"], "--discover"),
    (None, NO_DISCOVERY, ["discovery"], "Columns of this table are open"),
    (["prior of", "add-rows", "load", "look"], [PERTURB], None, "a perturbed table of pgmjax"),
    (["fit"], [PERTURB], None, "measurements"),
    (["fit"], ["dual-query"], None, "number"),
]
"""Commands, mechanisms, contexts (None: all), and a word that the message must hold; the first that fits."""


def refusal(mechanism, command, context):
    """Return the word of the refusal of a cell, None if it works."""
    cell = command, mechanism, context
    for *sets, word in REFUSED:
        if all(each is None or has(name, *each) for each, name in zip(sets, cell, strict=True)):
            return word
    return None


def is_quick(mechanism, command, context):
    """Return whether a cell is of a spread in which each two of mechanism, command and context meet."""
    places = MECHANISMS.index(mechanism), [*COMMANDS].index(command), CONTEXTS.index(context)
    first = next((c for c in CONTEXTS if refusal(mechanism, command, c) is None), None)
    diagonal = (places[0] + places[1]) % len(CONTEXTS) == places[2]
    return diagonal or (context == first and command in ("Synthesizer", "sweep"))


CELLS_OF = [*itertools.product(MECHANISMS, COMMANDS, CONTEXTS)]
QUICK = [cell for cell in CELLS_OF if is_quick(*cell)]


def check_refused(world, place, word, cell):
    """A refused cell says why, in a message of a known kind, and leaves nothing that was paid for."""
    with pytest.raises((worlds.CommandError, ValueError, TypeError)) as caught:
        COMMANDS[cell[1]](world, cell[0], cell[2], place)
    assert word in str(caught.value) and getattr(caught.value, "code", 2) == 2
    assert [each for each in place.rglob("*") if each.name in ("release.json", "answers")] == []
    for book in world.folder.glob(f"{cell[0]}-{cell[2]}-*.ledger") if cell[1] == "ledger" else ():
        (account,) = good("ledger", "show", book, "--json").json["accounts"]
        assert account["spent"] == "0"


@pytest.mark.parametrize(
    ("mechanism", "command", "context"),
    [
        pytest.param(*cell, marks=[] if cell in QUICK else pytest.mark.slow, id="-".join(cell))
        for cell in sorted(CELLS_OF, key=lambda cell: (cell[0], cell[2]))
    ],
)
def test_cell(world, mechanism, command, context, tmp_path):
    word = refusal(mechanism, command, context)
    if word is None:
        COMMANDS[command](world, mechanism, context, tmp_path)
    else:
        check_refused(world, tmp_path, word, (mechanism, command, context))


def test_the_quick_cells_cross_each_two():
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert {(c[one], c[other]) for c in QUICK} == {(c[one], c[other]) for c in CELLS_OF}
