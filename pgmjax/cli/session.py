"""`pgmjax session`: query a table online, reusing earlier answers where they suffice."""

from __future__ import annotations

import argparse
import json
import pathlib

from pgmjax._internal import checks
from pgmjax.cli.release import unit_of
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.history.session.requirement import AccuracyRequirement
from pgmjax.history.session.session import Session
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries import text as query_text
from pgmjax.release import text as report_text


def _read(arguments: argparse.Namespace) -> Session:
    return Session.read(_ledger(arguments.file), arguments.name, account=arguments.account)


def _ask(arguments: argparse.Namespace) -> None:
    with _session(arguments) as session:
        query = query_text.parse(arguments.condition, session.domain)
        answer = session.ask(query, arguments.half_width, arguments.delta)
        cost, cap, seed = as_text(session.cost), as_text(session.cap), session.seed
        population = session.population.of_cells(query_text.selection(arguments.condition, session.domain))
    if arguments.json:
        told = {**answer.to_dict(), "cap": cap, "seed": seed, "population": population.to_dict()}
        print(json.dumps({"query": arguments.condition, **told}))
    elif answer.answered:
        print(f"{arguments.condition}: {answer}; {cost} of {cap} is spent")
        for line in population.sentences():
            print(line)
    if not answer.answered:
        raise RuntimeError(f"refused: {answer.reason}")


def _session(arguments: argparse.Namespace) -> Session:
    """Open the session, with its table if one is named."""
    with_table = ("domain", "cap", "relation")
    if arguments.table is None:
        options = (*with_table, "unit", "max_records", "insecure_seed", "text_encoding")
        named = [name for name in options if getattr(arguments, name) is not None]
        if named:
            said = named[0].removeprefix("text_").replace("_", "-")
            raise ValueError(f"--{said} needs --table: give the table too.")
        return _read(arguments)
    if arguments.account is not None:
        raise ValueError("--account cannot be used with --table: the table determines the account.")
    missing = [name for name in with_table if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: --table needs --domain, --cap and --relation.")
    for path in (arguments.table, arguments.domain):
        if not pathlib.Path(path).exists():
            raise ValueError(f"There is no file {path}: check the path.")
    unit = unit_of(arguments)
    domain = Domain.read(arguments.domain)
    asked = query_text.parse(arguments.condition, domain)
    AccuracyRequirement.of(asked, arguments.half_width, arguments.delta, domain)  # before the cap is charged
    checks.optional("duckdb", extra="tables")
    seed = arguments.insecure_seed
    return Session.open(
        _ledger(arguments.file),
        Dataset.read(
            arguments.table,
            domain,
            header=not arguments.no_header,
            unit=unit,
            encoding=arguments.text_encoding,
        ),
        cap=arguments.cap,
        relation=arguments.relation,
        name=arguments.name,
        backend=None if seed is None else SeededBackend(seed, insecure=True),
    )


def _status(arguments: argparse.Namespace) -> None:
    with _read(arguments) as session:
        answers = list(session.answers())
        cost, cap, relation = as_text(session.cost), as_text(session.cap), session.relation.value
        unit, population = session.population.facts()["unit"], session.population.to_dict()
        secure, seed = session.secure, session.seed
    counts = {
        source: sum(a.source == source for a in answers) for source in ("history", "measured", "refused")
    }
    if arguments.json:
        listed = [answer.to_dict() for answer in answers]
        told = {"name": arguments.name, "cap": cap, "cost": cost, "relation": relation, "unit": unit}
        told["population"] = population
        print(json.dumps({**told, "secure": secure, "seed": seed, **counts, "answers": listed}))
        return
    kinds = f"{counts['history']} free, {counts['measured']} measured, {counts['refused']} refused"
    print(f"Session {arguments.name}: {len(answers)} queries, {kinds}.")
    whom = report_text.unit_name({"unit": unit})
    print(
        f"  cost     epsilon {cost} of {cap} in the cell with the highest cost, {relation}, protecting {whom}"
    )
    print(f"  counts   of {population['phrase']}")
    if not secure:
        print("  noise    repeatable: it protects nobody, use it for research only")


def _export(arguments: argparse.Namespace) -> None:
    out = pathlib.Path(arguments.out)
    checks.new_path(out)
    with _read(arguments) as session:
        session.history.save(out)
        number, secure, seed = session.history.num_rows, session.secure, session.seed
    if arguments.json:
        print(json.dumps({"out": str(out), "answers": number, "secure": secure, "seed": seed}))
    else:
        warning = "" if secure else "; the noise is repeatable, use them for research only"
        print(f"{number} noisy answers written to {out}{warning}")


def _ledger(file: str) -> Ledger:
    if not pathlib.Path(file).exists():
        turned = " The ledger stands before the conditions." if "=" in file else ""
        raise ValueError(f"There is no ledger {file}: make one with `pgmjax ledger init`.{turned}")
    return Ledger.open(file)
