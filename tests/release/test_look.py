"""The holder's look against pandas and scikit-learn alone; what it writes, and that it changes nothing."""

import itertools
import json
import os
import stat
import sys

import numpy as np
import pandas
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.privacy import SeededBackend
from pgmjax.queries import marginal
from pgmjax.release import look as looks
from pgmjax.release.look import MARK, SIZES

NAMES = ("a", "b", "c", "d")
DOMAIN = pj.Domain({"a": {"labels": ["x", "y"]}, "b": 3, "c": 4, "d": {"labels": ["no", "yes"]}})


def frame(rows=900):
    rng = np.random.default_rng(0)
    b, c = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    a = np.where(rng.random(rows) < 0.2 + 0.3 * (b == 1), "x", "y")
    d = np.where(rng.random(rows) < 0.1 + 0.8 * ((b == 2) | (a == "x")), "yes", "no")
    return pandas.DataFrame({"a": a, "b": b, "c": c, "d": d})


def release_of(table, seed=0, workload=(("a", "b"), ("b", "d"), ("a", "d"), ("c",)), **reading):
    data = pj.Dataset.from_frame(DOMAIN, table, **reading)
    noise = SeededBackend(seed, insecure=True) if seed is not None else None
    made = pj.mechanisms.Marginals(1, "add-remove", backend=noise)
    return made.run(data, pj.Workload(workload), show_progress=False)


def true_table(table, names):
    """Return exact counts, by pandas alone."""
    places = {"a": ["x", "y"], "b": range(3), "c": range(4), "d": ["no", "yes"]}
    found = table.groupby(list(names)).size()
    cells = itertools.product(*(places[name] for name in names))
    keyed = [cell if len(names) > 1 else cell[0] for cell in cells]
    return np.array([found.get(each, 0) for each in keyed], float)


def test_every_number_is_that_of_pandas():
    table = frame()
    release = release_of(table)
    found = release.look(table)
    assert found.records == 900
    by_clique = {each.clique: each for each in found.distances}
    every = [c for size in (1, 2, 3) for c in itertools.combinations(NAMES, size)]
    assert {frozenset(clique) for clique in by_clique} == set(map(frozenset, every))
    drawn = DOMAIN.decode(release.model.sample(round(release.model.total), 0))
    rows = pandas.DataFrame({name: list(column) for name, column in drawn.items()})
    for clique, each in by_clique.items():
        true = true_table(table, clique) / 900
        ours = np.asarray(release.model.marginal(clique)).reshape(-1) / release.model.total
        assert each.model == pytest.approx(np.abs(ours - true).sum() / 2)
        sampled = true_table(rows.astype(table.dtypes), clique) / len(rows)
        assert each.rows == pytest.approx(np.abs(sampled - true).sum() / 2)
    held = known = 0
    cells = []
    for clique in (*((name,) for name in NAMES), ("a", "b"), ("b", "d"), ("a", "d")):
        told, true = release.report(marginal(clique)), true_table(table, clique)
        inside = (told.intervals[:, 0] <= true) & (true <= told.intervals[:, 1])
        held, known = held + inside.sum(), known + len(true)
        cells += list(zip(true, np.abs(told.estimates - true), inside, strict=True))
    assert found.held == (held, known)
    for group, (least, above) in zip(
        found.sizes,
        [p for p in itertools.pairwise((*SIZES, np.inf)) if any(p[0] <= c[0] < p[1] for c in cells)],
        strict=True,
    ):
        mine = [cell for cell in cells if least <= cell[0] < above]
        assert group.cells == len(mine) and group.mean == pytest.approx(np.mean([c[1] for c in mine]))
        assert group.held == pytest.approx(np.mean([c[2] for c in mine]))
        assert abs(group.worst.estimate - group.worst.true) == pytest.approx(max(c[1] for c in mine))
    assert [each.name for each in found.columns] == list(NAMES)


def test_classifiers_are_those_of_scikit_learn():
    """d depends on a and b, so that what was learned of them together is right more often than a guess."""
    table = frame(4000)
    found = release_of(table).look(table).training
    assert found.target == "d" and found.records == 2000
    assert found.real[0] > found.guess[0] + 0.1 and found.synthetic[0] > found.guess[0] + 0.1
    assert found.guess[1] == 0.5  # of two classes one is always right
    lost = release_of(table, workload=(("a",), ("b",), ("c",), ("d",))).look(table).training
    assert lost.real == found.real and lost.synthetic[0] < found.guess[0] + 0.02
    rng = np.random.default_rng(1)
    true, said = rng.integers(0, 4, 50), rng.integers(0, 4, 50)
    assert looks._scores(true, said) == pytest.approx(
        (accuracy_score(true, said), balanced_accuracy_score(true, said))
    )


@pytest.mark.parametrize(
    ("reading", "kind"),
    [({}, "plain"), ({"rows_outside": "drop"}, "drop"), ({"rows_outside": "clip"}, "clip")],
)
def test_a_frame_is_read_as_the_release_counted_it(reading, kind):
    table = frame()
    if kind != "plain":
        table.loc[::7, "c"] = 9
    assert looks.reading(DOMAIN, release_of(table, **reading).population) == reading
    found = release_of(table, **reading).look(table)
    assert found.records == pj.Dataset.from_frame(DOMAIN, table, **reading).count()
    held, known = found.held
    assert held / known > 0.8


def test_intervals_of_units_are_checked_only_where_the_choice_is_known():
    table = frame().assign(id=np.arange(900) // 3)
    unit = pj.Unit("id", 2)
    seeded = release_of(table, seed=5, unit=unit).look(table)
    held, known = seeded.held
    assert not seeded.chosen and held / known > 0.8 and seeded.records == 600
    secure = release_of(table, seed=None, unit=unit).look(table)
    assert secure.chosen and secure.held == (0, 0) and any("chosen at random" in x for x in secure.lines())
    few = release_of(table, seed=None, unit=pj.Unit("id", 3)).look(table)
    assert not few.chosen and few.held[1] > 0


def saved(tmp_path, **reading):
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    release_of(table, **reading).save(tmp_path / "out")
    return table


def content(folder):
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_page_is_marked_private_and_nothing_else_changes(tmp_path, capsys):
    saved(tmp_path)
    before = content(tmp_path / "out")
    words = ["look", f"{tmp_path}/out", f"{tmp_path}/t.csv"]
    old = os.umask(0o000)
    try:
        assert main([*words, "--out", f"{tmp_path}/look.html"]) == 0
    finally:
        os.umask(old)
    said, page = capsys.readouterr().out, (tmp_path / "look.html").read_text()
    assert said.startswith(MARK) and page.splitlines()[0] == f"<!-- {MARK} -->"
    assert "<title>NOT FOR PUBLICATION" in page and page.count(MARK) == 2
    assert stat.S_IMODE((tmp_path / "look.html").stat().st_mode) == 0o600
    assert content(tmp_path / "out") == before
    assert sorted(os.listdir(tmp_path)) == ["look.html", "out", "t.csv"]
    assert "http" not in page.replace("http-equiv", "")
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert next(iter(told)) == "not_for_publication"
    assert told["intervals"]["held"] == pj.load(tmp_path / "out").look(frame()).held[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "{}/out/look.html"], "would be in the release"),
        (["--out", "{}/out/model/look.html"], "would be in the release"),
        (["--out", "{}/link/look.html"], "would be in the release"),
        (["--out", "{}/t.csv"], "exists"),
        (["--out", "{}/look.txt"], "end its name in .html"),
        (["--out", "{}/none/look.html"], "folder"),
        (["--target", "e"], "must be a column of two values or more"),
        (["--weights", "w"], "leave --weights out"),
    ],
)
def test_what_cannot_be_is_refused(words, said, tmp_path, capsys):
    saved(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "out" / "model")
    before = content(tmp_path)
    asked = [word.format(tmp_path) for word in words]
    assert main(["look", f"{tmp_path}/out", f"{tmp_path}/t.csv", *asked]) == 2
    assert said in capsys.readouterr().err and content(tmp_path) == before


def test_other_tables_are_refused(tmp_path, capsys):
    table, release = frame(), release_of(frame())
    other = pj.Dataset.from_frame(pj.Domain({"b": 3, "c": 4}), table)
    weighted = pj.Dataset.from_frame(DOMAIN, table.assign(w=1), weights="w", max_weight=2)
    for given, said in ((other, "release's domain"), (weighted, "Weights must be")):
        with pytest.raises(ValueError, match=said):
            release.look(given)
    with pytest.raises(TypeError):
        release.look("t.csv")
    saved(tmp_path)
    assert main(["look", f"{tmp_path}/out", f"{tmp_path}/none.csv"]) == 2
    assert main(["look", f"{tmp_path}", f"{tmp_path}/t.csv"]) == 2
    assert "none.csv" in capsys.readouterr().err


def test_without_scikit_learn_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    found = release_of(frame()).look(frame())
    assert found.training is None and "'pgmjax[learners]'" in found.without
    assert any("No classifier was trained" in line for line in found.lines())


def test_a_fit_of_published_counts_and_weights_can_be_looked_at(tmp_path, capsys):
    table = saved(tmp_path)
    DOMAIN.write(tmp_path / "d.json")
    words = ["fit", f"{tmp_path}/out/measurements.parquet", "--domain", f"{tmp_path}/d.json"]
    assert main([*words, "--out", f"{tmp_path}/fit", "--quiet"]) == 0
    found = pj.load(tmp_path / "fit").look(table)
    assert found.held[1] == pj.load(tmp_path / "out").look(table).held[1]
    heavy = pj.Dataset.from_frame(DOMAIN, table.assign(w=2), weights="w", max_weight=3)
    noise = SeededBackend(0, insecure=True)
    release = pj.mechanisms.Marginals(1, "add-remove", backend=noise).run(
        heavy, pj.Workload([["a", "b"]]), show_progress=False
    )
    told = release.look(heavy)
    assert told.records == 1800 and told.training is None and "weights" in told.without
