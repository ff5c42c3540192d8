"""`pgmjax release --ledger`: charged in the ledger, and asked again at no cost."""

import json

import pandas
import pytest

from pgmjax.cli import main
from pgmjax.estimation.estimator import Estimator
from pgmjax.release import tables


@pytest.fixture
def folder(small_domain, small_columns, tmp_path, capsys):
    """A table, its domain and a ledger that grants it 2."""
    pandas.DataFrame(small_columns).to_csv(tmp_path / "t.csv", index=False)
    small_domain.write(tmp_path / "d.json")
    init = ["ledger", "init", tmp_path / "b.ledger", tmp_path / "t.csv", "--name", "small", "--epsilon", "2"]
    init += ["--relation", "add-remove", "--domain", tmp_path / "d.json"]
    assert main([*map(str, init)]) == 0
    capsys.readouterr()
    return tmp_path


def release(folder, out, *more, epsilon="1"):
    words = [
        "release",
        folder / "t.csv",
        "--domain",
        folder / "d.json",
        "--all-kway",
        "1",
        "--epsilon",
        epsilon,
    ]
    words += ["--relation", "add-remove", "--out", folder / out, "--steps", "20", "--rows", "5"]
    return main([str(word) for word in [*words, "--ledger", folder / "b.ledger", *more]])


def spent(folder, capsys):
    capsys.readouterr()
    assert main(["ledger", "show", str(folder / "b.ledger"), "--json"]) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    return account["spent"]


def test_a_release_is_charged_and_asked_again_for_free(folder, capsys):
    assert release(folder, "one") == 0
    said = capsys.readouterr().out
    assert "ledger   charge 1 of account small\n" in said
    assert release(folder, "two") == 0
    assert "the answers are those of an earlier run, at no further cost" in capsys.readouterr().out
    for name in ("measurements.parquet", "answers.parquet", "model/model.npz"):
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes()
    record = json.loads((folder / "one" / "release.json").read_text())
    assert "account small, charge 1" in (folder / "one" / "report.html").read_text()
    assert record["ledger"]["account"] == "small" and record["ledger"]["head"] in said
    assert spent(folder, capsys) == "1"


def test_a_key_makes_another_run(folder, capsys):
    assert release(folder, "one") == 0
    assert release(folder, "two", "--key", "second") == 0
    assert spent(folder, capsys) == "2"


def test_the_cap_holds(folder, capsys):
    assert release(folder, "one", epsilon="1.5") == 0
    assert release(folder, "two", epsilon="0.6") == 2
    said = capsys.readouterr().err
    assert all(each in said for each in ("epsilon 0.6", "of 2", "only 0.5", "'small'"))
    assert not (folder / "two").exists() and spent(folder, capsys) == "1.5"


def test_a_failed_fit_goes_on_under_its_charge(folder, capsys, monkeypatch):
    monkeypatch.setattr(Estimator, "fit", lambda *given, **more: 1 / 0)
    assert release(folder, "one") == 1
    assert "pgmjax release --resume" in capsys.readouterr().err
    monkeypatch.undo()
    assert release(folder, "one") == 0
    assert "no further cost" in capsys.readouterr().out
    assert spent(folder, capsys) == "1"


def test_an_interrupt_says_how_to_go_on(folder, capsys, monkeypatch):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(Estimator, "fit", interrupted)
    assert release(folder, "one") == 130
    assert "pgmjax release --resume" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(["release", "--resume", str(folder / "one.partial")]) == 0
    assert "the answers are those of an earlier run" in capsys.readouterr().out
    assert spent(folder, capsys) == "1"


def test_a_changed_table_is_another_table(folder, capsys):
    with open(folder / "t.csv", "a") as file:
        file.write("\n")
    assert release(folder, "one") == 2
    assert ".ledger" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, words",
    [
        (["--insecure-seed", "1"], "'small'"),
        (["--ledger", "none.ledger"], "none.ledger"),
        (["--delta", "1e-9"], "event 1"),
    ],
)
def test_refusals_cost_nothing(folder, more, words, capsys):
    assert release(folder, "one", *more) == 2
    assert words in capsys.readouterr().err and spent(folder, capsys) == "0"


def test_a_key_needs_a_ledger(folder, capsys):
    words = ["release", "t.csv", "--domain", "d.json", "--all-kway", "1", "--epsilon", "1"]
    assert main([*words, "--relation", "add-remove", "--out", str(folder / "x"), "--key", "a"]) == 2
    assert "--key names a run in a ledger: give --ledger FILE too." in capsys.readouterr().err


def test_an_older_copy_of_the_ledger_draws_no_step_again(folder, capsys, monkeypatch):
    """The answer that was kept is the one that was seen; a second one would tell more than was charged."""

    def interrupted(*given, **more):
        raise KeyboardInterrupt

    older = (folder / "b.ledger").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Estimator, "fit", interrupted)
        assert release(folder, "one") == 130
    seen = tables.read(folder / "one.partial" / "measurements.parquet")
    for path in folder.glob("b.ledger-*"):
        path.unlink()
    (folder / "b.ledger").write_bytes(older)
    assert release(folder, "one") == 0
    assert tables.read(folder / "one" / "measurements.parquet").equals(seen)
    assert spent(folder, capsys) == "1"
