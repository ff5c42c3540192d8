"""Seventy mistakes that a new user makes, the message that each gets, and its grade.

    python tests/mistakes.py [--out FILE]

Each mistake is made for real, in a temporary folder with small tables. The five points and "misleading" are a
person's judgment of the message; they stand beside each case, with a reason where a point is missed. The rest
is checked here, and a case that fails a check stops the script: the exit status, no traceback on the command
line, no planted secret in any message, and no file made or changed and nothing charged.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

import pgmjax as pj
from pgmjax.cli import main as command_line
from pgmjax.cli import process

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "tests" / "mistakes.md"
SECRETS = ("Zyxw9173", "91730917")
POINTS = {
    1: "It says what was expected.",
    2: "It says what came instead.",
    3: "It says what to do next.",
    4: "It names the option, argument, file or column.",
    5: "It shows no value of the private table.",
}
ENOUGH = 66


@dataclasses.dataclass(frozen=True)
class Case:
    """A mistake, and how a person grades its message.

    Attributes:
        title: what the user does wrong.
        tried: a command line that begins with `pgmjax`, or lines of Python.
        misses: the points that the message misses, each with a reason.
        misleading: why the message misleads; empty if it does not.
        status: the documented exit status of a command.
    """

    title: str
    tried: str
    misses: Mapping[int, str] = dataclasses.field(default_factory=dict)
    misleading: str = ""
    status: int = 2

    @property
    def is_command(self) -> bool:
        """Whether it is a command line."""
        return self.tried.startswith("pgmjax ")


RELEASE = "pgmjax release people.csv --domain people.yaml --all-kway 2"
PRIVACY = "--epsilon 1 --relation add-remove"
REST = f"--all-kway 2 {PRIVACY} --out new"
COMMANDS = [
    Case("A command is misspelt", f"pgmjax releese people.csv --domain people.yaml {PRIVACY} --out new"),
    Case("Half of a command's name", "pgmjax draft people.csv --out new.yaml"),
    Case("An option is misspelt", f"{RELEASE} --epsilom 1 --relation add-remove --out new"),
    Case("No epsilon", f"{RELEASE} --relation add-remove --out new"),
    Case("No relation", f"{RELEASE} --epsilon 1 --out new"),
    Case("The relation is misspelt", f"{RELEASE} --epsilon 1 --relation addremove --out new"),
    Case("A word for epsilon", f"{RELEASE} --epsilon one --relation add-remove --out new"),
    Case("A negative epsilon", f"{RELEASE} --epsilon -1 --relation add-remove --out new"),
    Case(
        "Nothing says what to measure", f"pgmjax release people.csv --domain people.yaml {PRIVACY} --out new"
    ),
    Case("The table does not exist", f"pgmjax release poeple.csv --domain people.yaml {REST}"),
    Case("No domain", f"pgmjax release people.csv {REST}"),
    Case("A folder for the table", f"pgmjax release exports --domain people.yaml {REST}"),
    Case("A CSV file with another delimiter", f"pgmjax release colons.csv --domain people.yaml {REST}"),
    Case("A CSV file without a header", f"pgmjax release headless.csv --domain people.yaml {REST}"),
    Case("Two columns of one name", f"pgmjax release twice.csv --domain people.yaml {REST}"),
    Case(
        "The domain has a column that the table lacks", f"pgmjax release people.csv --domain wide.yaml {REST}"
    ),
    Case("A value outside the domain", f"pgmjax release strange.csv --domain people.yaml {REST}"),
    Case("A value outside the domain, checked", "pgmjax domain check strange.csv people.yaml", status=1),
    Case("The domain file is broken JSON", f"pgmjax release people.csv --domain broken.json {REST}"),
    Case("The domain file has an unknown key", "pgmjax domain check people.csv keys.yaml"),
    Case("The domain file is a list", "pgmjax domain check people.csv list.yaml"),
    Case("The folder exists already", f"{RELEASE} {PRIVACY} --out done"),
    Case("The ledger is spent", f"{RELEASE} {PRIVACY} --ledger budgets.ledger --insecure-seed 0 --out new"),
    Case(
        "The key of another run",
        f"{RELEASE} {PRIVACY} --ledger budgets.ledger --key first --insecure-seed 0 --out new",
    ),
    Case(
        "The key file of another ledger",
        f"{RELEASE} {PRIVACY} --ledger moved.ledger --insecure-seed 0 --out new",
        status=1,
    ),
    Case("A query of an unknown column", "pgmjax query done gender=F"),
    Case("A query of an unknown label", "pgmjax query done sex=female"),
    Case("A query with an unknown operator", "pgmjax query done 'sex~F'"),
    Case("A query of a folder that is no release", "pgmjax query exports sex=F"),
    Case("An earlier release over another domain", f"{RELEASE} {PRIVACY} --from other --out new"),
    Case("Published counts with NaN", "pgmjax fit nan.csv --domain people.yaml --stddev 5 --out new"),
    Case("A negative standard deviation", "pgmjax fit counts.csv --domain people.yaml --stddev -5 --out new"),
    Case(
        "Published counts of an unknown column",
        "pgmjax fit gender.csv --domain people.yaml --stddev 5 --out new",
    ),
    Case(
        "A model that is too large",
        "pgmjax release wide.csv --domain codes.yaml --all-kway 3 --mechanism marginals "
        f"--max-cells 1000000000000000000000000 {PRIVACY} --out new",
    ),
    Case("A unit that is no column", f"{RELEASE} {PRIVACY} --unit persom --max-records 4 --out new"),
    Case("An audit of an unknown mechanism", "pgmjax audit mts"),
    Case("A short name of an option", f"{RELEASE} -e 1 --relation add-remove --out new"),
    Case("An option for what stands alone", f"pgmjax release --table people.csv --domain people.yaml {REST}"),
    Case("An option without its value", f"{RELEASE} --epsilon --relation add-remove --out new"),
    Case("Two values of epsilon", f"{RELEASE} {PRIVACY} --epsilon 2 --out new"),
    Case("Two tables", f"pgmjax release people.csv wide.csv --domain people.yaml {REST}"),
    Case("An empty name", f"{RELEASE} {PRIVACY} --out ''"),
    Case(
        "An address for a table",
        f"pgmjax release https://example.org/people.csv --domain people.yaml {REST}",
    ),
]
FIT = 'pj.Synthesizer(epsilon=1, relation="add-remove").fit'
PYTHON = [
    Case(
        "Two columns of one name", f"frame = pd.concat([people, people['age']], axis=1)\n{FIT}(frame, domain)"
    ),
    Case("A column without a name", f"frame = people.rename(columns={{'age': None}})\n{FIT}(frame, domain)"),
    Case("An index that holds data", f"{FIT}(people.set_index('job'), domain)"),
    Case(
        "A column of mixed types",
        f"frame = people.assign(age=[*people['age'][:-1], 'Zyxw9173'])\n{FIT}(frame, domain)",
    ),
    Case("A frame without rows", f"{FIT}(people[:0], domain)"),
    Case("The domain lacks a column", f"del domain['job']\n{FIT}(people, domain)"),
    Case("A value outside the domain", f"frame = people.assign(job='Zyxw9173')\n{FIT}(frame, domain)"),
    Case("No relation", "pj.Synthesizer(epsilon=1).fit(people, domain)"),
    Case(
        "The relation is misspelt", 'pj.Synthesizer(epsilon=1, relation="add_or_remove").fit(people, domain)'
    ),
    Case(
        "A mechanism is misspelt",
        'pj.Synthesizer(epsilon=1, relation="add-remove", mechanism="AMI").fit(people, domain)',
    ),
    Case(
        "A unit that is no column",
        'unit = pj.Unit("persom", 4)\n'
        'pj.Synthesizer(epsilon=1, relation="add-remove", unit=unit).fit(people, domain)',
    ),
    Case("Labels to be discovered without delta", f"{FIT}(people, discover=0.1)"),
    Case("Rows before a fit", 'pj.Synthesizer(epsilon=1, relation="add-remove").sample(10)'),
    Case("No rows", "synth.sample(0)"),
    Case("A negative number of rows", "synth.sample(-1)"),
    Case("A release saved over a folder", 'synth.save("done")'),
    Case(
        "Counts of the wrong shape",
        'noisy = [pj.LinearMeasurement(("sex",), [10, 20, 30], stddev=5)]\n'
        'pj.Estimator().fit(pj.Domain({"sex": 2}), noisy)',
    ),
    Case("A count that is NaN", 'pj.LinearMeasurement(("sex",), [10, float("nan")], stddev=5)'),
    Case("A negative standard deviation", 'pj.LinearMeasurement(("sex",), [10, 20], stddev=-5)'),
    Case(
        "A count of an unknown attribute",
        'noisy = [pj.LinearMeasurement(("gender",), [10, 20], stddev=5)]\n'
        'pj.Estimator().fit(pj.Domain({"sex": 2}), noisy)',
    ),
    Case("An attribute of size 0", 'pj.Domain({"sex": 0})'),
    Case("An argument that there is not", 'pj.Dataset.read("people.csv", pj.Domain(domain), delimiter=";")'),
    Case("A table without its domain", 'pj.Dataset.read("people.csv")'),
    Case("A number for a folder", "synth.save(1)"),
    Case(
        "A domain written as in mbi",
        'pj.Domain(["sex", "age"], [2, 5])',
        {1: "it shows a mapping and does not say that one is expected."},
    ),
    Case("A name of mbi", "pj.Estimator(iters=100)"),
    Case(
        "An import of a name of mbi",
        "from pgmjax import FactoredInference",
        {1: "Python's own message, which no package can change.", 3: "pgmjax.FactoredInference would tell."},
    ),
]
CASES = COMMANDS + PYTHON


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a case did.

    Attributes:
        message: as it was printed; of Python the last lines of the traceback.
        hidden: everything else that a traceback shows, which must hold no secret either.
        status: the exit status; of Python 1 if an exception was raised.
        changed: files that were made, changed or removed.
    """

    message: str
    hidden: str
    status: int
    changed: tuple[str, ...]

    def faults(self, case: Case) -> list[str]:
        """Return what a check by machine finds wrong, a line each."""
        wanted = case.status if case.is_command else 1
        found = [] if self.status == wanted else [f"status {self.status}, expected {wanted}"]
        found += [f"shows the secret {word}" for word in SECRETS if word in self.message + self.hidden]
        found += ["shows a traceback"] if "Traceback" in self.message else []
        return [*found, *(f"changed {name}" for name in self.changed)]


def people(rows: int = 400) -> pd.DataFrame:
    """Return the table, with a secret name and a secret number."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person": [f"p{k}" for k in draw.integers(0, rows // 2, rows)],
            "age": draw.integers(18, 90, rows),
            "sex": draw.choice(["F", "M"], rows),
            "job": draw.choice(["cook", "nurse", "smith"], rows),
        }
    )
    frame.loc[7, "person"] = "Zyxw9173"
    return frame


DOMAIN: dict[str, Any] = {
    "age": {"min": 0, "max": 99, "step": 20},
    "sex": {"labels": ["F", "M"]},
    "job": {"labels": ["cook", "nurse", "smith"]},
}
YAML = """\
age: {min: 0, max: 99, step: 20}
sex: {labels: [F, M]}
job: {labels: [cook, nurse, smith]}
"""


def prepare() -> dict[str, Any]:
    """Write the files that the cases use into the working folder; return the names that their Python uses."""
    table = people()
    table.to_csv("people.csv", index=False)
    table.to_csv("colons.csv", index=False, sep=":")
    table.to_csv("headless.csv", index=False, header=False)
    pd.concat([table, table["age"]], axis=1).to_csv("twice.csv", index=False)
    strange = table.astype({"age": object})
    strange.loc[3, "job"], strange.loc[5, "age"] = "Zyxw9173", 91730917
    strange.to_csv("strange.csv", index=False)
    pathlib.Path("exports").mkdir()
    table.to_csv("exports/people.csv", index=False)
    wide = {f"code{k}": 50 for k in range(12)}
    pd.DataFrame(np.zeros((20, 12), int), columns=list(wide)).to_csv("wide.csv", index=False)
    files = {
        "people.yaml": YAML,
        "wide.yaml": YAML + "income: {min: 0, max: 99999, step: 1000}\n",
        "broken.json": '{"age": {"min": 0, "max": 99, "step": 20},\n "sex": {"labels": ["F", "M"}}\n',
        "keys.yaml": "age: {minimum: 0, max: 99, step: 20}\n",
        "list.yaml": "- age\n- sex\n- job\n",
        "codes.yaml": "".join(f"{name}: {size}\n" for name, size in wide.items()),
        "counts.csv": "sex,value\nF,180\nM,220\n",
        "nan.csv": "sex,value\nF,180\nM,NaN\n",
        "gender.csv": "gender,value\nF,180\nM,220\n",
        "sex.yaml": "sex: {labels: [F, M]}\n",
    }
    for name, text in files.items():
        pathlib.Path(name).write_text(text, encoding="utf-8")
    common = "--epsilon 1 --relation add-remove --insecure-seed 0 --steps 50 --rows 5 --quiet"
    account = "people.csv --domain people.yaml --name people --epsilon 1 --relation add-remove --research"
    for words in (
        f"release people.csv --domain sex.yaml --all-kway 1 {common} --out other",
        f"ledger init budgets.ledger {account} --json",
        f"ledger init moved.ledger {account} --json",
        f"release people.csv --domain people.yaml --all-kway 1 {common} --ledger budgets.ledger --key first "
        "--out done",
    ):
        with contextlib.redirect_stdout(io.StringIO()):
            assert command_line(shlex.split(words)) == 0, words
    pathlib.Path("moved.ledger.key").rename("moved.key")
    shutil.copy("budgets.ledger.key", "moved.ledger.key")
    synth = pj.Synthesizer(epsilon=1, relation="add-remove", insecure_seed=0)
    synth.fit(table.drop(columns="person"), DOMAIN, show_progress=False)
    counts = [pj.LinearMeasurement(("sex",), [180, 220], stddev=5)]
    return {"synth": synth, "counts": counts}


def contents() -> dict[str, str]:
    """Return digests of all files below the working folder."""
    found = {}
    for path in sorted(pathlib.Path().rglob("*")):
        found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return found


def attempt(case: Case, names: Mapping[str, Any]) -> Outcome:
    """Make a mistake in the prepared working folder."""
    before = contents()
    message, hidden, status = run_command(case.tried) if case.is_command else _python(case.tried, names)
    after = contents()
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    here = str(pathlib.Path().resolve())
    shown = re.sub(
        r"[0-9.]+ [KMGT]iB is available",
        "... is available",
        message.replace(here + os.sep, "").replace(f"{ROOT}{os.sep}", ""),
    )
    return Outcome(shown.strip("\n"), hidden, status, tuple(changed))


def run_command(tried: str) -> tuple[str, str, int]:
    """Run a command line in this process, as `pgmjax` runs it in its own."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = process.show_warning
        try:
            status = command_line(shlex.split(tried)[1:])
        except BaseException:  # what `main` lets through would be a traceback
            return f"{said.getvalue()}{traceback.format_exc()}", "", -1
    return said.getvalue(), "", status


def _python(tried: str, names: Mapping[str, Any]) -> tuple[str, str, int]:
    """Run lines of Python, and return the last lines of their traceback."""
    table = people().drop(columns="person")
    domain = {name: dict(entry) for name, entry in DOMAIN.items()}
    known = {"pj": pj, "pd": pd, "np": np, "people": table, "domain": domain, **names}
    try:
        exec(compile(tried, "<tried>", "exec"), known)
    except Exception as error:
        whole = "".join(traceback.format_exception(error))
        lines = [line for line in whole.splitlines() if not line.startswith(("  ", "Traceback"))]
        return "".join(traceback.format_exception_only(error)), "\n".join(lines), 1
    return "", "", 0


@contextlib.contextmanager
def working_folder() -> Iterator[None]:
    """Work in a temporary folder, with lines of usage of one width."""
    before, width = pathlib.Path.cwd(), os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["COLUMNS"] = "100"
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("COLUMNS")
            os.environ.update({} if width is None else {"COLUMNS": width})


def grade(case: Case) -> str:
    """Return a case's grade in words."""
    points = len(POINTS) - len(case.misses)
    missed = "".join(f" Misses {point}: {reason}" for point, reason in case.misses.items())
    misleading = f"yes: {case.misleading}" if case.misleading else "no"
    return f"{points} of {len(POINTS)}.{missed} Misleading: {misleading}."


def page(outcomes: list[Outcome]) -> str:
    """Return the page of results."""
    lines = [
        "# Seventy mistakes and their messages",
        "",
        "Written by `python tests/mistakes.py`. Every mistake is made for real; the message is shown whole.",
        "",
        "A message gets one point for each of these:",
        "",
        *(f"{number}. {text}" for number, text in POINTS.items()),
        "",
        "A list of the valid choices, a range or an example says both what was expected and what to do. A "
        "message misses a point if a colleague would have to ask about it. It is misleading if it sends the "
        'reader the wrong way. Points and "misleading" are a judgment, kept beside each case in the script. '
        "The script checks the rest: the exit status, no traceback on the command line, no value of the "
        f"private tables ({' and '.join(SECRETS)} are planted in them), no file made or changed, and nothing "
        "charged. The memory that is available, which differs between machines, is shown as `...`.",
        "",
        "The Python lines use `people`, a pandas frame with the columns age, sex and job; `domain`, which "
        "describes these; `synth`, a Synthesizer fitted to them; and `counts`, one noisy answer.",
    ]
    for number, (case, outcome) in enumerate(zip(CASES, outcomes, strict=True), 1):
        kind, status = ("bash", f", exit status {outcome.status}") if case.is_command else ("python", "")
        lines += ["", f"## {number}. {case.title}", "", f"```{kind}", case.tried, "```", ""]
        lines += [f"Message{status}:", "", "```text", outcome.message, "```", "", f"Grade: {grade(case)}"]
    full = sum(not case.misses for case in CASES)
    misleading = sum(bool(case.misleading) for case in CASES)
    lines += [
        "",
        "## Count",
        "",
        f"{full} of {len(CASES)} messages have all five points; {misleading} are misleading.",
        *(f"Point {n} is missed by {sum(n in case.misses for case in CASES)}." for n in POINTS),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the mistakes and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    out = parser.parse_args().out.absolute()
    with working_folder():
        names = prepare()
        outcomes = [attempt(case, names) for case in CASES]
    faults = {case.title: found for case, o in zip(CASES, outcomes, strict=True) if (found := o.faults(case))}
    out.write_text(page(outcomes), encoding="utf-8")
    for title, found in faults.items():
        print(f"{title}: {'; '.join(found)}", file=sys.stderr)
    if faults:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
