"""Bad tables, domains and options, all given to the commands: each must end in one clear line.

    python tests/storms/bad_inputs.py

For every input the command must end with 0, 1 or 2, print at most one line on standard error, no traceback
and none of the values in the table (they hold the word that is looked for), and leave nothing behind if it
was refused. On a ledger, what is refused must be free. It prints every outcome, and exits with 1 on a fault.
"""

import contextlib
import gzip
import io
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import pandas

import pgmjax as pj
from pgmjax.cli import main

SECRET = "Sekret"
GOOD = {"a": ["x", "y", "x"], "n": [1, 5, 9], "w": [1, 2, 1]}
DOMAIN = {"a": {"labels": ["x", "y"]}, "n": {"bins": [0, 5, 10]}}

TABLES = {
    "an empty file": b"",
    "a header alone": b"a,n,w\n",
    "blank lines alone": b"\n\n\n",
    "a label outside": b"a,n,w\nx,1,1\nSekret,2,1\n",
    "a number beyond the bins": b"a,n,w\nx,1,1\ny,1e9,1\n",
    "text for a number": b"a,n,w\nx,Sekret,1\n",
    "an infinite number": b"a,n,w\nx,inf,1\n",
    "a missing label": b"a,n,w\n,1,1\n",
    "a missing number": b"a,n,w\nx,,1\n",
    "too few fields": b"a,n,w\nx,1,1\nx,Sekret\n",
    "too many fields": b"a,n,w\nx,1,1\nx,1,1,Sekret\n",
    "an open quote": b'a,n,w\nx,1,1\n"Sekret,1,1\n',
    "no such column": b"b,n,w\nx,1,1\n",
    "a column twice": b"a,a,n,w\nx,x,1,1\n",
    "no header": b"x,1,1\ny,2,1\n",
    "another delimiter": b"a;n;w\nx;1;1\n",
    "not UTF-8": b"a,n,w\nx,1,1\nSekret\xff\xfe,1,1\n",
    "UTF-16": "a,n,w\nx,1,1\n".encode("utf-16"),
    "a NUL byte": b"a,n,w\nx\0Sekret,1,1\n",
    "a weight too large": b"a,n,w\nx,1,99\n",
    "a negative weight": b"a,n,w\nx,1,-1\n",
    "a fractional weight": b"a,n,w\nx,1,0.5\n",
    "a weight of text": b"a,n,w\nx,1,Sekret\n",
    "a very long line": b"a,n,w\n" + b"Sekret" * 500_000 + b",1,1\n",
    "a program": pathlib.Path(sys.executable).resolve().read_bytes()[:5000],
}
PARQUET = {
    "damaged Parquet": b"PAR1Sekret",
    "Parquet of dates": {"a": ["x"], "n": [np.datetime64("2020-01-01")], "w": [1]},
    "Parquet of lists": {"a": [["Sekret"]], "n": [1], "w": [1]},
    "Parquet of nulls": {"a": [None], "n": [None], "w": [1]},
    "Parquet of no rows": {"a": [], "n": [], "w": []},
    "Parquet of floats for labels": {"a": [1.5], "n": [1], "w": [1]},
}
DOMAINS = {
    "an empty domain": {},
    "a list for a domain": [1],
    "a size of 0": {"a": 0},
    "a size of text": {"a": "Sekret"},
    "a negative size": {"a": -3},
    "a size without end": {"a": 10**400},
    "labels twice": {"a": {"labels": ["x", "x"]}},
    "no labels": {"a": {"labels": []}},
    "labels that are lists": {"a": {"labels": [[1]]}},
    "bins that fall": {"n": {"bins": [5, 1]}},
    "one edge": {"n": {"bins": [5]}},
    "an unknown key": {"a": {"label": ["x"]}},
    "labels and bins": {"a": {"labels": ["x"], "bins": [0, 1]}},
    "an empty name": {"": 2},
    "a name with a control character": {"a\u0007": 2},
    "a name that turns the text": {"a\u202eb": 2},
    "clip without bins": {"a": {"labels": ["x"], "clip": True}},
}
TEXTS = {"no JSON": "{", "a name twice": '{"a": 2, "a": 3}', "deep JSON": '{"a":' * 5000 + "1" + "}" * 5000}
OPTIONS = [
    *(["--epsilon", bad] for bad in ("0", "-1", "nan", "inf", "1e400", "x", "1/0", "", "1,5", "0x1")),
    *(["--delta", bad] for bad in ("-1", "1", "2", "nan", "x", "1/0")),
    *(["--all-kway", bad] for bad in ("0", "-1", "9", "x")),
    *(["--rows", bad] for bad in ("-1", "x", "1.5")),
    *(["--steps", bad] for bad in ("0", "-5", "x")),
    *(["--solver", bad] for bad in ("none", "")),
    *(["--mechanism", bad] for bad in ("none", "AIM")),
    *(["--option", bad] for bad in ("rounds", "=1", "rounds=1", "x=y")),
    *(["--max-weight", bad] for bad in ("1", "0", "x")),
    *(["--weights", bad] for bad in ("none", "a")),
    *(["--rows-outside", bad] for bad in ("keep", "")),
    ["--key", "k"],
    ["--holder-log", "h"],
    ["--max-cells", "0"],
    ["--max-cells", "1"],
    ["--workload", "none.json"],
    ["--synthetic", "xls"],
    ["--dtype", "float16"],
    ["--insecure-seed", "x"],
    ["--insecure-seed", "-1"],
    ["--resume", "none"],
    ["--relation", "both"],
    ["--ledger", "none"],
]


def ran(words):
    """Run a command; return its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def faults_of(code, out, err, place, before, is_usage=False):
    """What is wrong with an outcome."""
    if code not in (0, 1, 2):
        yield f"exit code {code}"
    if code and err.count("\n") != 1 and not is_usage and "usage:" not in err:
        yield f"{err.count(chr(10))} lines on standard error"
    if code and not err.strip():
        yield "no message"
    if "Traceback" in err or SECRET in out + err:
        yield "a traceback or a value of the table"
    left = sorted(path.name for path in place.iterdir())
    if code and left != before:
        yield f"left behind: {sorted(set(left) - set(before))}"


def files(place):
    """Yield a name, a table's path and whether it is of the kind that the good ledger knows."""
    for name, content in TABLES.items():
        (place / "t.csv").write_bytes(content)
        yield name, place / "t.csv"
        with gzip.open(place / "t.csv.gz", "wb") as file:
            file.write(content)
        yield f"{name}, compressed", place / "t.csv.gz"
    (place / "t.csv.gz").write_bytes(gzip.compress(b"a,n,w\nx,1,1\n")[:-9])
    yield "half a compressed file", place / "t.csv.gz"
    for name, content in PARQUET.items():
        if isinstance(content, bytes):
            (place / "t.parquet").write_bytes(content)
        else:
            pandas.DataFrame(content).to_parquet(place / "t.parquet")
        yield name, place / "t.parquet"
    for name, array in (
        ("floats", np.ones((3, 2))),
        ("three axes", np.ones((2, 2, 2), int)),
        ("codes", [[5, 9]]),
    ):
        np.save(place / "t.npy", array)
        yield f"a .npy of {name}", place / "t.npy"
    (place / "t.npy").write_bytes(b"\x93NUMPYSekret")
    yield "a damaged .npy", place / "t.npy"
    (place / "t.xls").write_bytes(b"Sekret")
    yield "a kind that is none", place / "t.xls"
    yield "no file", place / "none.csv"


def release(place, table, *more, domain=None, drop=()):
    words = {"--domain": domain or place / "d.json", "--all-kway": "1", "--epsilon": "1", "--rows": "3"}
    words |= {"--relation": "add-remove", "--out": place / "out", "--steps": "5"}
    fixed = [
        part for name, value in words.items() if name not in (*drop, *more[::2]) for part in (name, value)
    ]
    return ["release", table, *fixed, "--quiet", *more]


def inputs(place):
    """Yield a name and the words of a command for every bad input."""
    good = place / "good.csv"
    for name, table in files(place):
        yield f"release: {name}", release(place, table)
        yield f"release, dropping: {name}", release(place, table, "--rows-outside", "drop")
        yield f"release, weighted: {name}", release(place, table, "--weights", "w", "--max-weight", "9")
        init = ["ledger", "init", place / "new.ledger", table, "--domain", place / "d.json", "--name", "t"]
        yield f"ledger init: {name}", [*init, "--epsilon", "1", "--relation", "add-remove"]
        yield f"ledger add-version: {name}", ["ledger", "add-version", place / "b.ledger", "t", table]
        yield f"on the ledger: {name}", release(place, table, "--ledger", place / "b.ledger")
    for name, content in [*((n, json.dumps(d)) for n, d in DOMAINS.items()), *TEXTS.items()]:
        (place / "bad.json").write_text(content)
        yield f"domain: {name}", release(place, good, domain=place / "bad.json")
        yield (
            f"domain on the ledger: {name}",
            release(place, good, "--ledger", place / "b.ledger", domain=place / "bad.json"),
        )
    for words in OPTIONS:
        yield f"option {' '.join(words)}", release(place, good, *words)
        if words[0] != "--ledger":
            yield (
                f"on the ledger, {' '.join(words)}",
                release(place, good, "--ledger", place / "b.ledger", *words),
            )


def storm():
    """Try all; return the number of faults."""
    tried, refused, faults = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        pandas.DataFrame(GOOD).to_csv(place / "good.csv", index=False)
        (place / "d.json").write_text(json.dumps(DOMAIN))
        init = ["ledger", "init", place / "b.ledger", place / "good.csv", "--domain", place / "d.json"]
        code, _, err = ran([*init, "--name", "t", "--epsilon", "100", "--relation", "add-remove"])
        assert code == 0, err
        for name, words in inputs(place):
            before = sorted(path.name for path in place.iterdir())
            with pj.privacy.Ledger.open(place / "b.ledger") as ledger:
                spent = ledger.account("t").spent
            code, out, err = ran(words)
            wrong = list(faults_of(code, out, err, place, before))
            with pj.privacy.Ledger.open(place / "b.ledger") as ledger:
                if code == 2 and ledger.account("t").spent != spent:
                    wrong.append("a refusal was charged")
            tried, refused = tried + 1, refused + (code != 0)
            faults += [f"{name}: {each}" for each in wrong]
            print(f"{code}  {name}: {err.strip().splitlines()[-1][:150] if err.strip() else 'done'}")
            for path in place.glob("out*"):
                shutil.rmtree(path)
            for path in place.glob("new.ledger*"):
                path.unlink()
    print(f"{tried} inputs, {refused} refused, {len(faults)} faults", *faults, sep="\n")
    return len(faults)


if __name__ == "__main__":
    sys.exit(bool(storm()))
