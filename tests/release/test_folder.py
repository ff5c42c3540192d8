"""The folder of a release: what it holds, that it is there in full or not at all, what is refused."""

import json
import os
import shutil
import signal

import numpy as np
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

import pgmjax as pj
from pgmjax._internal import files as new_folder
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.release import folder as release_folder
from pgmjax.release.folder import SyntheticRows


@pytest.fixture(scope="module")
def folder(small_release, tmp_path_factory):
    out = tmp_path_factory.mktemp("releases") / "made" / "one"
    return release_folder.write(small_release, out, show_progress=False)


def test_all_parts_are_there_and_nothing_else(folder):
    names = sorted(os.listdir(folder))
    files = [
        "answers.parquet",
        "assurance.json",
        "measurements.parquet",
        "model",
        "release.json",
        "report.html",
        "synthetic.parquet",
    ]
    assert names == files
    assert os.listdir(folder.parent) == ["one"]


def test_record(folder, small_release):
    record = json.loads((folder / "release.json").read_text())
    wanted = {"mechanism", "epsilon", "delta", "relation", "spent", "secure", "seed", "total", "versions"}
    assert wanted <= set(record)
    assert record["epsilon"] == "0.5" and record["delta"] == "0"
    assert record["spent"] == {"epsilon": "0.5", "delta": "0"}
    assert record["relation"] == "add-remove" and record["mechanism"] == "marginals"
    assert record["secure"] is False and record["seed"] == 3
    assert record["total"] == small_release.model.total
    assert (
        record["fit"]["steps"] == small_release.fit.steps and record["fit"]["loss"] == small_release.fit.loss
    )
    assert record["versions"]["pgmjax"] == pj.__version__ and "opendp" in record["versions"]
    assert pj.Workload(record["workload"]) == small_release.workload


def test_measurements_are_those_released(folder, small_release):
    rows = parquet.read_table(folder / "measurements.parquet")
    assert rows.column_names == ["clique", "row", "value", "stddev", "noise", "scale"]
    assert str(rows.schema.field("value").type) == "int64"
    frame = rows.to_pylist()
    expected = [
        {
            "clique": list(m.clique),
            "row": i,
            "value": int(v),
            "stddev": s,
            "noise": "laplace",
            "scale": m.distribution.scale,
        }
        for m in small_release.measurements
        for i, (v, s) in enumerate(zip(m.values.ravel(), m.row_stddevs(), strict=True))
    ]
    assert frame == expected


def test_answers_are_the_models_inside_their_intervals(folder, small_release):
    rows = parquet.read_table(folder / "answers.parquet").to_pylist()
    attributes = [name for name in small_release.domain if any(name in row["clique"] for row in rows)]
    assert list(rows[0]) == [
        "query",
        *attributes,
        "clique",
        "cell",
        "estimate",
        "stddev",
        "noise_stddev",
        "low",
        "high",
        "share_low",
        "share_high",
        "determined",
        "rests_on",
    ]
    start = 0
    for entry, measurement in zip(small_release.workload.entries, small_release.measurements, strict=True):
        estimate = np.ravel(small_release.model.answer(entry.query))
        part = rows[start : start + len(estimate)]
        assert [row["cell"] for row in part] == list(range(len(estimate)))
        assert all(row["clique"] == list(entry.clique) for row in part)
        known = small_release.estimates.unbiased(entry.query)
        reach = 3.29 * known.stddevs
        inside = np.clip(estimate, np.maximum(known.values - reach, 0), np.maximum(known.values, 0) + reach)
        np.testing.assert_allclose([row["estimate"] for row in part], inside, rtol=1e-12)
        assert all(row["low"] <= row["estimate"] <= row["high"] for row in part)
        assert {row["noise_stddev"] for row in part} == set(measurement.row_stddevs())
        start += len(estimate)
    assert start == len(rows)


def test_synthetic_rows_are_values_or_codes(folder, small_release, tmp_path):
    domain, total = small_release.domain, round(small_release.model.total)
    coded = release_folder.write(
        small_release, tmp_path / "r", rows=SyntheticRows(codes=True), show_progress=False
    )
    codes = parquet.read_table(coded / "synthetic.parquet")
    values = parquet.read_table(folder / "synthetic.parquet")
    assert codes.column_names == values.column_names == list(domain.attributes)
    assert len(codes) == len(values) == total
    for name, expected in small_release.model.sample(seed=0).items():
        assert (codes[name].to_numpy() == expected).all()
        assert (domain.attribute(name).encode(values[name].to_pylist()) == expected).all()
    for where, written in ((folder, "values"), (coded, "codes")):
        assert release_folder.read(where).record["synthetic"] == written
        assert f"rows drawn from the model, as {written}" in (where / "report.html").read_text()


def test_rows_are_dealt_or_independent_and_the_record_says_which(folder, small_release, tmp_path):
    rows = SyntheticRows(method="multinomial", codes=True)
    own = release_folder.write(small_release, tmp_path / "r", rows=rows)
    drawn = parquet.read_table(own / "synthetic.parquet")
    for name, expected in small_release.model.sample(seed=0, method="multinomial").items():
        assert (drawn[name].to_numpy() == expected).all()
    assert release_folder.read(own).record["method"] == "multinomial"
    assert release_folder.read(folder).record["method"] == "round"
    with pytest.raises(ValueError, match="method"):
        SyntheticRows(method="even")


def test_model_reads_back(folder, small_release):
    saved = release_folder.read(folder)
    clique = ("sex", "age")
    np.testing.assert_allclose(saved.model.marginal(clique), small_release.model.marginal(clique))
    assert len(saved.measurements()) == sum(m.values.size for m in small_release.measurements)
    assert len(saved.answers()) == small_release.workload.num_queries(small_release.domain)


def test_csv_and_number_of_rows(small_release, tmp_path):
    out = release_folder.write(
        small_release, tmp_path / "r", rows=SyntheticRows(7, "csv"), show_progress=False
    )
    table = pyarrow.csv.read_csv(out / "synthetic.csv")
    assert table.num_rows == 7 and table.column_names == list(small_release.domain.attributes)
    assert not (out / "synthetic.parquet").exists()


def test_answers_that_were_not_measured_have_no_noise(small_release, tmp_path):
    import dataclasses

    workload = pj.Workload([*small_release.workload.to_list(), ["sex"]])
    wider = dataclasses.replace(small_release, workload=workload)
    out = release_folder.write(wider, tmp_path / "r", rows=SyntheticRows(1), show_progress=False)
    rows = parquet.read_table(out / "answers.parquet").to_pylist()[-2:]
    assert (
        [row["noise_stddev"] for row in rows] == [None, None]
        and rows[0]["determined"]
        and rows[0]["clique"] == ["sex"]
    )


@pytest.mark.parametrize("made", ["folder", "file", "link"])
def test_what_exists_is_never_overwritten(made, small_release, tmp_path):
    out = tmp_path / "there"
    {"folder": out.mkdir, "file": out.touch, "link": lambda: out.symlink_to(tmp_path / "nowhere")}[made]()
    with pytest.raises(ValueError, match="exists"):
        new_folder.check_target(out)
    with pytest.raises(ValueError, match="exists"):
        release_folder.write(small_release, out, show_progress=False)
    assert os.listdir(tmp_path) == ["there"]


def test_a_target_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not a folder that can be written"):
        new_folder.check_target(tmp_path / "file" / "out")


def test_an_interrupt_leaves_nothing(small_release, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        partial = list(tmp_path.rglob("measurements.parquet"))
        assert len(partial) == 1 and partial[0].parent.name.endswith(".partial")
        raise KeyboardInterrupt

    monkeypatch.setattr(release_folder, "render", fail)
    with pytest.raises(KeyboardInterrupt):
        release_folder.write(
            small_release, tmp_path / "new" / "r", rows=SyntheticRows(1), show_progress=False
        )
    assert os.listdir(tmp_path) == []


def test_an_impatient_second_interrupt_leaves_nothing(tmp_path, monkeypatch):
    remove = shutil.rmtree

    def interrupted_removal(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        remove(*args, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", interrupted_removal)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="first"), new_folder.reserve_folder(tmp_path / "new" / "r"):
        raise KeyboardInterrupt("first")
    assert os.listdir(tmp_path) == [] and signal.getsignal(signal.SIGINT) is before


def test_a_name_that_cannot_be_is_refused_before_the_block(tmp_path):
    long = tmp_path / ("n" * 256)
    with pytest.raises(ValueError, match=r"n{256}"), new_folder.reserve_folder(long):
        pytest.fail("the block ran")
    assert os.listdir(tmp_path) == []
    with new_folder.reserve_folder(tmp_path / ("n" * 255)):
        pass
    assert os.listdir(tmp_path) == ["n" * 255]


def test_a_folder_that_appears_meanwhile_is_kept(small_release, tmp_path, monkeypatch):
    monkeypatch.setattr(release_folder, "render", lambda *a, **k: (tmp_path / "r").mkdir() or "")
    with pytest.raises(ValueError, match="exists"):
        release_folder.write(small_release, tmp_path / "r", rows=SyntheticRows(1), show_progress=False)
    assert os.listdir(tmp_path) == ["r"] and os.listdir(tmp_path / "r") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"number": -1}, ">= 0"),
        ({"format": "xlsx"}, "'parquet'.*'csv'"),
        ({"method": "even"}, "'round'.*'multinomial'"),
        ({"escape_formulas": True}, "CSV"),
    ],
)
def test_bad_arguments_write_nothing(arguments, message, small_release, tmp_path):
    with pytest.raises(ValueError, match=message):
        rows = SyntheticRows(**arguments)
        release_folder.write(small_release, tmp_path / "r", rows=rows, show_progress=False)
    assert os.listdir(tmp_path) == []


def test_read_says_what_is_wrong(folder, tmp_path):
    good = json.loads((folder / "release.json").read_text())
    with pytest.raises(ValueError, match=r"folder .*none"):
        release_folder.read(tmp_path / "none")
    with pytest.raises(ValueError, match=r"no release\.json"):
        release_folder.read(tmp_path)
    lacking = {key: value for key, value in good.items() if key != "spent"}
    cases = {
        "{": "JSON",
        "[]": "'pgmjax:release'",
        json.dumps({**good, "format": "x"}): "'pgmjax:release'",
        json.dumps({**good, "format_version": 99}): "99",
        json.dumps(lacking): "lacks spent",
    }
    for text, message in cases.items():
        (tmp_path / "release.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            release_folder.read(tmp_path)


def test_parts_that_are_missing_or_damaged(folder, tmp_path):
    (tmp_path / "release.json").write_text((folder / "release.json").read_text())
    saved = release_folder.read(tmp_path)
    with pytest.raises(ValueError, match="without its folder model: copy the whole folder"):
        _ = saved.model
    table = CliqueVector((("age",),), (np.full(5, 0.2),))
    pj.model.RegionModel(pj.Domain({"age": 5}), table, 9.0, 0.0).save(tmp_path / "model")
    with pytest.raises(ValueError, match="it cannot hold a model of regions"):
        _ = saved.model
    with pytest.raises(ValueError, match="incomplete"):
        saved.answers()
    (tmp_path / "measurements.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match="damaged"):
        saved.measurements()
