"""Small files that would take much memory or time: refused by their headers, in every folder that is read.

What the library wrote (`tests/stored.py`) is made hostile one file at a time. Peaks are of memory that Python
and NumPy took, by `tracemalloc`.
"""

import hashlib
import io
import json
import re
import shutil
import time
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import checks, files, formats, memory
from pgmjax._internal.files import array_of
from pgmjax.history import History
from pgmjax.learning import predictor
from pgmjax.measurements import transcript
from pgmjax.release import tables
from tests import stored

BOMB = 12_500_000  # zeros of 8 bytes: 100 MB that deflate to 0.1 MB
MOST = 20_000_000  # bytes that refusing may take
SECONDS = 2.0  # quadratic work on the texts below would take minutes

KINDS = {
    "model": (stored.save_model, pj.load),
    "regions": (stored.save_regions, pj.load),
    "mixture": (stored.save_mixture, pj.load),
    "history": (stored.save_history, History.load),
    "ridge": (stored.save_predictor, predictor.read),
    "mlp": (
        lambda folder: stored.save_predictor(folder, pj.learning.MLP(hidden=(4,), epochs=2)),
        predictor.read,
    ),
    "perturbed": (stored.save_perturbed, pj.local.load),
}
ARRAYS = sorted({*KINDS} - {"perturbed"})


def npy(shape, descr="<f8", payload=b""):
    """The bytes of an .npy whose header promises what its payload need not hold."""
    file = io.BytesIO()
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue() + payload


def rewritten(path, change):
    """Replace members of an .npz; a history's file keeps the digest in its name."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            with file.open(name, "w") as member:
                for part in [content] if isinstance(content, bytes) else content:
                    member.write(part)
    record = path.with_name("history.json")
    if record.exists():
        name = f"history-{hashlib.sha256(path.read_bytes()).hexdigest()[:32]}.npz"
        path.rename(path.with_name(name))
        record.write_text(json.dumps({**json.loads(record.read_text()), "arrays": name}))


def zeros():
    """A member that is as long as its header says."""
    yield npy((BOMB,))
    for _ in range(BOMB // 1_250_000):
        yield bytes(10_000_000)


def refused(load, *given):
    """Say how a reader refuses, and check that this takes little memory and time."""
    tracemalloc.start()
    started = time.perf_counter()
    try:
        with pytest.raises((ValueError, TypeError)) as caught:
            load(*given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST, f"{peak:,} bytes"
    assert time.perf_counter() - started < SECONDS
    assert len(str(caught.value)) < 2000
    return str(caught.value)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder of each kind, as the library wrote it."""
    place = tmp_path_factory.mktemp("kept")
    for name, (save, _) in KINDS.items():
        save(place / name)
    return place


@pytest.fixture(params=ARRAYS)
def folder(request, kept, tmp_path):
    """A folder of each kind with its reader, which loads as it is."""
    shutil.copytree(kept / request.param, tmp_path / "it")
    load = KINDS[request.param][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(tmp_path / "it")
    return tmp_path / "it", load


def first(members):
    """A member that is read, and read first."""
    return next((name for name in members if "encodings" in name), next(iter(members)))


HOSTILE = {
    "a bomb": lambda members: members.update({first(members): zeros()}),
    "a promise": lambda members: members.update({first(members): npy((1 << 40,))}),
    "a long header": lambda members: members.update(
        {first(members): b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(100)}
    ),
    "objects": lambda members: members.update({first(members): npy((1,), "|O", b"cos\nsystem\n")}),
    "no bytes a cell": lambda members: members.update({first(members): npy((1 << 40,), "|V0")}),
    "text hard to parse": lambda members: members.update(
        {first(members): b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"-" * 8999 + b"\n"}
    ),
    "another file": lambda members: members.update({"x.txt": b"text"}),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_arrays_are_refused_by_their_headers(folder, how):
    path, load = folder
    rewritten(next(path.glob("*.npz")), HOSTILE[how])
    assert next(path.glob("*.npz")).stat().st_size < 400_000
    assert "is corrupt" in refused(load, path)


def test_what_no_record_names_is_not_read(folder):
    path, load = folder
    if "predictor" in str(load.__module__):
        pytest.skip("a learner names its own arrays")
    rewritten(next(path.glob("*.npz")), lambda members: members.update({"more.npy": zeros()}))
    tracemalloc.start()
    load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST


def test_arrays_larger_than_free_memory_are_refused(folder, monkeypatch):
    path, load = folder
    for module in (files, memory):
        monkeypatch.setattr(module, "available_bytes", lambda: 10)
    assert "of memory are free" in refused(load, path)


TEXTS = ["[" * 200_000, '{"a": ' * 200_000, '{"a": 1' + "0" * 2_000_000 + "}", '"' + "x" * 100, "", "\x00"]


@pytest.mark.parametrize("text", range(len(TEXTS)))
def test_records_are_refused(folder, text):
    path, load = folder
    next(path.glob("*.json")).write_text(TEXTS[text])
    assert "is damaged" in refused(load, path) or "no model" in refused(load, path)


def test_a_record_too_large_for_free_memory_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text('{"a": [' + "[]," * 400_000 + "[]]}")
    monkeypatch.setattr(files, "available_bytes", lambda: 10_000_000)
    assert "of free memory are too few" in refused(files.read, path, formats.MODEL)


def test_a_record_names_no_file_elsewhere(kept, tmp_path):
    shutil.copytree(kept / "history", tmp_path / "it")
    record = tmp_path / "it" / "history.json"
    stored = next((tmp_path / "it").glob("*.npz"))
    stored.rename(tmp_path / stored.name)
    record.write_text(json.dumps({**json.loads(record.read_text()), "arrays": f"../{stored.name}"}))
    assert "names a file outside the folder" in refused(History.load, tmp_path / "it")


@pytest.mark.parametrize("size", [3 * 10**8, 10**12, 10**300])
def test_an_attribute_without_a_table_takes_no_memory(kept, tmp_path, size):
    """A kilobyte of text can name an attribute of any size; nothing is made of it when a model is read."""
    shutil.copytree(kept / "model", tmp_path / "it")
    record = json.loads((tmp_path / "it" / "model.json").read_text())
    record["domain"]["huge"] = size
    (tmp_path / "it" / "model.json").write_text(json.dumps(record))
    tracemalloc.start()
    assert pj.load(tmp_path / "it").domain["huge"] == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST


@pytest.mark.parametrize(
    "content", [npy((1 << 40,), "|u1"), npy((1 << 40,), "|V0"), b"PK\x05\x06" + bytes(18)]
)
def test_mapped_tables_are_as_long_as_they_say(kept, tmp_path, content):
    shutil.copytree(kept / "perturbed", tmp_path / "it")
    (tmp_path / "it" / "answers-0.npy").write_bytes(content)
    assert "is corrupt" in refused(pj.local.load, tmp_path / "it")
    domain = pj.Domain({"a": 2})
    said = refused(pj.Dataset.read, tmp_path / "it" / "answers-0.npy", domain)
    assert "cannot be read as a .npy file" in said


def test_a_stored_answer_is_as_long_as_it_says():
    assert array_of(npy((2,), "<i8", bytes(16))).tolist() == [0, 0]
    for content in (npy((1 << 40,), "<i8"), npy((1,), "|O", bytes(8)), npy((1,), "<i8", bytes(16))):
        assert "header" in refused(array_of, content)


@pytest.mark.parametrize("step", ["1e999999999", "1e9_9999_9999", "1e٩٩٩٩٩٩٩٩٩", "1" * 5000])
def test_numbers_in_words_are_short(step):
    assert "400" in refused(checks.short_number, "step", step)
    record = {"attributes": ["a"], "queries": [["a"]], "count": 1, "step": step, "drawn": [], "records": []}
    assert "step must be a number" in refused(transcript.read, record, pj.Domain({"a": 2}))
    assert "weight" in refused(pj.Workload, [{"clique": ["a"], "weight": step}])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 200_000, "w.json"),
        ('[{"clique": ["a"], "queries": {"a": ' + "[" * 900 + "]" * 900 + "}}]", "list"),
        ('[{"clique": ["a"], "weight": 1e999999999}]', "inf"),
        ('[{"clique": ["a"], "weight": 0.' + "0" * 1_000_000 + "1}]", "0.0"),
        ('[{"clique": ["a"], "weight": 1' + "0" * 1_000_000 + "}]", "is damaged: .* 1,000,001 digits"),
    ],
)
def test_workload_files(tmp_path, text, said):
    (tmp_path / "w.json").write_text(text)
    message = refused(pj.Workload.read, tmp_path / "w.json")
    assert re.search(said, message)


def laughs():
    """A list of nine, nine lists of it, nine lists of those, and so on twenty times."""
    lines = ["a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for number in range(20):
        name, last = chr(98 + number), chr(97 + number)
        lines.append(f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("d.json", "[" * 200_000, "d.json"),
        ("d.json", '{"a": 1' + "0" * 1_000_000 + "}", "1,000,001 digits"),
        ("d.yaml", "[" * 20_000, "nested more than 32 deep"),
        ("d.yaml", "{a: " * 20_000, "nested more than 32 deep"),
        ("d.yaml", "- " * 20_000, "nested more than 32 deep"),
        ("d.yaml", "\n".join(" " * depth + "a:" for depth in range(1000)), "nested more than 32 deep"),
        ("d.yaml", laughs(), "aliases stand for more than a million"),
        ("d.yaml", "a: &a [*a]", "aliases stand for more than a million"),
        ("d.yaml", "a: 1" + "0" * 20_000, "'a'"),
        ("d.yaml", "a: 1" + ":59" * 6_000, "'a'"),
    ],
)
def test_domain_files(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    assert said in refused(pj.Domain.read, tmp_path / name)


def test_an_alias_of_a_domain_file_is_read(tmp_path):
    (tmp_path / "d.yaml").write_text("a: {labels: &yes_no [yes, no]}\nb: {labels: *yes_no}\n")
    assert pj.Domain.read(tmp_path / "d.yaml").shape == (2, 2)


def test_a_table_of_a_release_that_runs_on_is_refused(tmp_path, monkeypatch):
    """A run-length code says a million zeros in a few bytes."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": np.zeros(1_000_000)}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10_000
    assert tables.read(tmp_path / "t.parquet").num_rows == 1_000_000
    monkeypatch.setattr(tables, "available_bytes", lambda: 7_000_000)
    with pytest.raises(ValueError, match=r"holds 7\.63 MiB or more, and only 6\.68 MiB of memory are free"):
        tables.read(tmp_path / "t.parquet")


REFUSED = ["\x00", "\n", "\x7f", "\x85", "\ud800", "\u061c", "\u200e", "\u202e", "\u2066", "\u2069"]


@pytest.mark.parametrize("character", REFUSED)
def test_names_show_as_what_they_are(character):
    """The message has the code point, and never the character."""
    name, code = f"a{character}b", f"U+{ord(character):04X}"
    makers = [
        lambda: pj.Domain({name: 2}),
        lambda: pj.Domain({"a": {"labels": ["x", name]}}),
        lambda: pj.Domain({"a": {"size": 2, "missing": name}}),
    ]
    for make in makers:
        said = refused(make)
        assert code in said and character not in said


def test_names_in_any_script_are_let_in():
    """Marks that join letters are part of some scripts."""
    for name in ("größe", "年齢", "गुणवत्ता", "a\u200cb", "a b", "✓"):
        assert pj.Domain({name: {"labels": [name, "x"]}}).attributes == (name,)
