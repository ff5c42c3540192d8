"""The scripts of bench/: inputs drawn as the peer draws them, lines with their keys, refusals in words."""

import gzip
import importlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import pgmjax as pj

ROOT = pathlib.Path(__file__).parent.parent.parent
SIZES = {"a": 2, "b": 3, "c": 4}
TINY = {
    "oracle-tiny": {"kind": "oracle", "seed": 3, "domain": SIZES, "cliques": [["a", "b"], ["c", "b"]]},
    "fit-tiny": {
        **{"kind": "fit", "seed": 4, "iters": 60, "sigma": 50.0, "data": None},
        **{"domain": SIZES, "cliques": [["a", "b"], ["c", "b"]]},
    },
    "loop-tiny": {
        **{"kind": "loop", "seed": 5, "iters": 40, "sigma": 50.0, "data": None, "domain": SIZES},
        **{"start": [["a"], ["b"], ["c"]], "rounds": [["a", "b"]]},
    },
}
FAKE_PEER = """
import json, os, signal, sys
if "--oracle" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
print(json.dumps(dict(case=sys.argv[1], peer="mbi MirrorDescent default", cold_s=2.0, warm_s=1.0, loss=1e9,
                      peak_mb=9000.0)))
"""


@pytest.fixture
def bench(monkeypatch):
    """Import a module of bench/, which lies beside the library and not in it."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return __import__


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("cases") / "cases.json"
    path.write_text(json.dumps(TINY))
    return path


def script(name, *arguments, **environment):
    command = [sys.executable, str(ROOT / "bench" / name), *map(str, arguments)]
    variables = {**os.environ, **environment}
    if "PGMJAX_DATA" not in environment:
        variables.pop("PGMJAX_DATA", None)
    return subprocess.run(command, capture_output=True, text=True, env=variables)


def line_in(run_script, name, *arguments):
    (text,) = run_script(ROOT / "bench" / name, *arguments).splitlines()
    return json.loads(text)


def drawn_by_the_peer(spec, columns=None):
    """The peer's own way from a seed to noisy answers, in its order."""
    rng, sizes = np.random.default_rng(spec["seed"]), spec["domain"]
    if columns is None:
        columns = {a: rng.integers(0, n, 50_000) for a, n in sizes.items()}
    noisy = []
    for clique in spec.get("cliques") or spec["start"] + spec["rounds"]:
        counts = np.zeros([sizes[a] for a in clique])
        np.add.at(counts, tuple(columns[a] for a in clique), 1.0)
        noisy.append(counts + rng.laplace(scale=spec["sigma"], size=[sizes[a] for a in clique]))
    return noisy


def loss(spec, marginals, noisy):
    squares = sum(np.sum((mu - y) ** 2) for mu, y in zip(marginals, noisy, strict=True))
    return 0.5 * float(squares) / spec["sigma"] ** 2


def saved(path):
    with np.load(path) as found:
        return [found[f"arr_{i}"] for i in range(len(found.files))]


@pytest.mark.parametrize("name", ["fit-tiny", "loop-tiny"])
def test_answers_are_the_peers_bit_for_bit(bench, file, name):
    cases = bench("cases")
    case = cases.load(name, file)
    total, rows = cases.answers(case, 3)
    assert total == 50_000
    for ours, theirs in zip(rows[0], drawn_by_the_peer(TINY[name]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, single in zip(rows[0], cases.answers(case)[1][0], strict=True):
        np.testing.assert_array_equal(ours, single)
    assert not np.array_equal(rows[1][0], rows[2][0])


def test_answers_of_a_table(bench, tmp_path, monkeypatch):
    cases = bench("cases")
    codes = np.random.default_rng(0).integers(0, [4, 2, 3], (50, 3))
    (tmp_path / "t").mkdir()
    with gzip.open(tmp_path / "t" / "t.csv.gz", "wt") as out:
        out.write("c,a,b\n" + "\n".join(",".join(map(str, row)) for row in codes) + "\n")
    spec = {**TINY["fit-tiny"], "data": "t"}
    (tmp_path / "cases.json").write_text(json.dumps({"fit-t": spec}))
    case = cases.load("fit-t", tmp_path / "cases.json")
    monkeypatch.delenv("PGMJAX_DATA", raising=False)
    with pytest.raises(ValueError, match=r"PGMJAX_DATA is not set.*fit-t needs one"):
        cases.answers(case)
    monkeypatch.setenv("PGMJAX_DATA", str(tmp_path))
    total, (noisy,) = cases.answers(case)
    assert total == 50
    for ours, theirs in zip(
        noisy, drawn_by_the_peer(spec, dict(zip("cab", codes.T, strict=True))), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.setenv("PGMJAX_DATA", str(tmp_path / "t"))
    with pytest.raises(ValueError, match=r"fit-t.*t\.csv\.gz"):
        cases.answers(case)


def test_potentials_are_the_peers_bit_for_bit(bench, file):
    cases = bench("cases")
    rng = np.random.default_rng(3)
    for ours, shape in zip(cases.potentials(cases.load("oracle-tiny", file)), [(2, 3), (4, 3)], strict=True):
        np.testing.assert_array_equal(ours, rng.normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("name", ["oracle-chain-100", "oracle-tree-300"])
def test_made_cases_are_those_of_the_file(bench, data_dir, name):
    cases = bench("cases")
    path = data_dir.resolve().parent / "peers" / "cases.json"
    if not path.exists():
        pytest.skip("there is no file of cases beside the tables")
    assert cases.make(name) == cases.load(name, path).__class__(
        **{**vars(cases.load(name, path)), "steps": 500, "sigma": 50.0}
    )


def test_cases_are_refused_in_words(bench, file, tmp_path, monkeypatch):
    cases = bench("cases")
    monkeypatch.delenv("PGMJAX_DATA", raising=False)
    with pytest.raises(ValueError, match=r"PGMJAX_DATA is not set.*--cases FILE"):
        cases.load("fit-adult9")
    monkeypatch.setenv("PGMJAX_DATA", str(tmp_path / "data"))
    with pytest.raises(ValueError, match=r"no default file of cases at .*pass --cases FILE"):
        cases.load("fit-adult9")
    assert len(cases.load("oracle-chain-50").cliques) == 48
    with pytest.raises(ValueError, match="'nope' is not a case; there are oracle-tiny, fit-tiny, loop-tiny"):
        cases.load("nope", file)
    with pytest.raises(ValueError, match=r"made case is .* with D >= 3, got 'oracle-chain-2'"):
        cases.load("oracle-chain-2", file)
    with pytest.raises(ValueError, match="there is no file of cases at"):
        cases.read(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("[")
    with pytest.raises(ValueError, match="JSON"):
        cases.read(tmp_path / "bad.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ValueError, match="must hold an object of cases by name, got list"):
        cases.read(tmp_path / "list.json")
    (tmp_path / "kind.json").write_text('{"x": {"kind": "other"}}')
    with pytest.raises(ValueError, match=r"'x'.*'other'"):
        cases.load("x", tmp_path / "kind.json")


def test_oracle_case(run_script, file, tmp_path):
    line = line_in(run_script, "versus.py", "oracle-tiny", "--cases", file, "--save", tmp_path / "o.npz")
    assert line["case"] == "oracle-tiny"
    assert {"cold_s", "warm_s", "peak_mb", "plan_s", "compile_s", "oracle", "forecast", "device"} <= set(line)
    assert 0 < line["warm_s"] < line["cold_s"]
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    joint = np.exp(first[:, :, None] + second.T[None])  # a, b, c
    assert line["log_partition"] == pytest.approx(np.log(joint.sum()), rel=1e-6)
    joint /= joint.sum()
    for found, expected in zip(saved(tmp_path / "o.npz"), (joint.sum(2), joint.sum(0).T), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_fit_case(run_script, file, tmp_path):
    line = line_in(run_script, "versus.py", "fit-tiny", "--cases", file, "--save", tmp_path / "f.npz")
    assert {"cold_s", "warm_s", "loss", "peak_mb", "steps", "status", "gap", "oracle", "solver"} <= set(line)
    expected = loss(TINY["fit-tiny"], saved(tmp_path / "f.npz"), drawn_by_the_peer(TINY["fit-tiny"]))
    assert line["loss"] == pytest.approx(expected, rel=1e-6)  # seven digits are printed
    assert line["fit_loss"] == pytest.approx(expected, rel=1e-6)


def test_loop_case(run_script, file, tmp_path):
    line = line_in(
        run_script, "versus.py", "loop-tiny", "--cases", file, "--save", tmp_path / "l.npz", "--steps", 5
    )
    assert line["rounds"] == len(line["round_s"]) == len(line["round_steps"]) == 2
    assert max(line["round_steps"]) <= 5
    spec = TINY["loop-tiny"]
    assert line["loss"] == pytest.approx(
        loss(spec, saved(tmp_path / "l.npz"), drawn_by_the_peer(spec)), rel=1e-6
    )


@pytest.mark.skipif(not hasattr(pj.Estimator, "fit_batch"), reason="the library has no fit_batch")
def test_batch_case(run_script, file, tmp_path):
    line = line_in(
        run_script, "versus.py", "fit-tiny", "--cases", file, "--batch", 3, "--save", tmp_path / "b.npz"
    )
    assert line["batch"] == line["singles"] == 3
    assert line["loss_apart"] < 1e-4  # both are certified within tol of the same optimum
    tables = saved(tmp_path / "b.npz")
    assert [table.shape for table in tables] == [(3, 2, 3), (3, 4, 3)]
    first = loss(TINY["fit-tiny"], [table[0] for table in tables], drawn_by_the_peer(TINY["fit-tiny"]))
    assert line["loss"] == pytest.approx(first, rel=1e-6)


def test_versus_refuses_in_words(bench, file, monkeypatch, capsys):
    versus, cases = bench("versus"), bench("cases")
    monkeypatch.delenv("PGMJAX_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", ["versus.py", "fit-adult9"])
    with pytest.raises(SystemExit, match=r"^versus\.py: PGMJAX_DATA is not set"):
        versus.main()
    with pytest.raises(SystemExit):
        versus.parse(["fit-tiny", "--steps", "0"])
    assert "must be at least 1, got 0" in capsys.readouterr().err
    options = versus.parse(["oracle-tiny", "--batch", "2"])
    with pytest.raises(ValueError, match="--batch is for fits; oracle-tiny is of kind oracle"):
        versus.measure(cases.load("oracle-tiny", file), options)
    monkeypatch.delattr(pj.Estimator, "fit_batch", raising=False)
    with pytest.raises(ValueError, match=r"Estimator\.fit_batch"):
        versus.measure(cases.load("fit-tiny", file), options)


def test_limits_end_a_process_and_say_why(bench):
    harness = bench("harness")
    take = [sys.executable, "-c", "x = bytearray(2**31); print('{}')"]
    failed = harness.run(take, memory_gb=1, timeout=60)
    assert failed["failed"].startswith("out of memory under ulimit -v 1.0 GB")
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert harness.run(slow, memory_gb=None, timeout=0)["failed"] == "killed after 0 s"
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert harness.run(killed, memory_gb=None, timeout=60)["failed"].startswith("killed by signal 9")
    wrong = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    assert harness.run(wrong, memory_gb=None, timeout=60) == {"failed": "no such thing", "returncode": 1}
    good = [sys.executable, "-c", "print('first'); print('{\"a\": 1}')"]
    assert harness.run(good, memory_gb=4, timeout=60) == {"a": 1}
    silent = [sys.executable, "-c", ""]
    assert harness.run(silent, memory_gb=None, timeout=60)["failed"] == "printed no line of JSON"


def test_provenance_names_no_folder_of_this_machine(bench):
    text = json.dumps(bench("harness").provenance())
    assert str(ROOT) not in text
    assert {"machine", "versions", "commit", "source", "command", "date"} <= set(json.loads(text))


def test_both_sides_in_turn(file, tmp_path):
    (file.parent / "mbi_run.py").write_text(FAKE_PEER)
    peer = ["--peer-python", sys.executable, "--peer-script", file.parent / "mbi_run.py"]
    where = ["--cases", file, "--out", tmp_path / "r.jsonl", "--runs", 1]
    done = script("peers.py", "fit-tiny", *where, *peer)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [line["side"] for line in lines] == ["ours", "mbi", "mbi-fast"]
    assert all({"machine", "versions", "commit", "command", "date"} <= set(line) for line in lines)
    assert lines[1]["step_s"] == pytest.approx(1 / 60)
    assert lines[2]["failed"].startswith("killed by signal 9")
    assert "fit-tiny" in done.stdout
    again = script("peers.py", "fit-tiny", *where, *peer)
    assert again.stdout == done.stdout
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 3


def test_ratios_are_of_medians_of_the_newest_code(bench):
    blocks = importlib.import_module("blocks.performance")
    ours = {"case": "oracle-chain-1000", "side": "ours", "peak_mb": 100.0, "warm_s": 0.01, "source": "new"}
    old = {**ours, "cold_s": 0.001, "source": "old"}
    theirs = {**ours, "side": "mbi", "cold_s": 60.0, "peak_mb": 400.0, "warm_s": 0.02}
    dead = {"case": "oracle-chain-1000", "side": "mbi", "failed": "out of memory", "source": "new"}
    lines = [old, *({**ours, "cold_s": s} for s in (1.0, 2.0, 9.0)), theirs, dead]
    row = blocks.peers(lines, [("oracle-chain-1000", "mbi")]).splitlines()[2]
    assert row.startswith("| oracle-chain-1000 (3) | mbi | 60 s / 2 s = **30x** (aim 30x) |")
    assert "| 20 ms / 10 ms = **2x** (aim 3x) | 400 / 100 |" in row


def test_scaling_refuses_in_words():
    said = script("scaling.py", "x").stderr
    assert "sweeps are attributes, cliques, loops, size, batch, rows, choosing, got x" in said


def test_a_command_is_measured_alone(bench):
    harness = bench("harness")
    take = "x = bytearray(2**28); y = sum(range(10**7))"
    found = harness.cost([sys.executable, "-c", take])
    assert found["peak_mb"] > 256 and found["cpu_seconds"] > 0 and found["seconds"] > 0
    wrong = harness.cost([sys.executable, "-c", "raise SystemExit('no such thing')"])
    assert wrong == {"failed": "no such thing", "returncode": 1}


def test_another_commit_has_files_of_its_own(bench):
    harness = bench("harness")
    with harness.worktree("HEAD") as path:
        assert path != harness.ROOT and (path / "bench" / "versus.py").is_file()
    assert not path.exists()
