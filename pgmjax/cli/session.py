"""`pgmjax session`: query a table online, reusing earlier answers where they suffice."""

from __future__ import annotations

import argparse
import difflib
import itertools
import pathlib
import re
import sys
from collections.abc import Iterator
from fractions import Fraction

from pgmjax._internal import checks, files
from pgmjax.cli import process
from pgmjax.cli.release import ledger_file, open_ledger, reading_of, unit_of
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.history.session.log import begun, session_names
from pgmjax.history.session.session import Session
from pgmjax.history.session.state import AccuracyRequirement
from pgmjax.mechanisms.online_weights import OnlineAnswers, OnlineWeights
from pgmjax.privacy import IdempotencyConflict, SeededBackend
from pgmjax.privacy.exact import as_text, exact_epsilon
from pgmjax.privacy.scales import laplace_for
from pgmjax.queries import Query
from pgmjax.queries import text as query_text
from pgmjax.release import statement as report_text


def _read(arguments: argparse.Namespace) -> Session:
    return Session.read(ledger_file(arguments.file), arguments.name, account=arguments.account)


def _ask(arguments: argparse.Namespace) -> None:
    opened, beside = _session(arguments)
    if beside:
        process.say(
            f"Session {arguments.name!r} was begun beside {', '.join(map(repr, beside))}, and its whole cap, "
            f"epsilon {as_text(opened.cap)}, is charged."
        )
    with opened as session:
        asked = query_text.conditions(arguments.condition, session.domain)
        answer = session.ask(asked.query, arguments.half_width, arguments.beta)
        cost, cap, seed = as_text(session.cost), as_text(session.cap), session.seed
        population = session.population.of_cells(asked.codes)
    told = {**answer.to_dict(), "cap": cap, "seed": seed, "population": population.to_dict()}
    said = [f"{arguments.condition}: {answer}; {cost} of {cap} is spent", *population.sentences()]
    said = said if answer.answered else []
    process.tell(arguments.json, {"query": arguments.condition, **told}, said)
    if not answer.answered:
        raise RuntimeError(f"refused: {answer.reason}")


def _session(arguments: argparse.Namespace) -> tuple[Session, list[str]]:
    """Open the session, with its table if one is named; the others beside it, if it was begun now."""
    with_table = ("domain", "cap", "relation")
    if arguments.table is None:
        options = (*with_table, "unit", "max_records", "insecure_seed", "text_encoding")
        named = process.first_of(arguments, options)
        checks.refuse((named, f"{named} needs --table: give the table too."))
        return _read(arguments), []
    missing = process.first_of(arguments, with_table, given=False)
    checks.refuse(
        (
            arguments.account is not None,
            "--account cannot be used with --table: the table determines the account.",
        ),
        (missing, f"{missing} is missing: --table needs --domain, --cap and --relation."),
    )
    domain = Domain.read(arguments.domain)
    asked = query_text.parse(arguments.condition, domain)
    wanted = AccuracyRequirement.of(asked, arguments.half_width, arguments.beta, domain)
    table, backend = _table(arguments, domain), _backend(arguments)
    beside = _check_first(arguments, wanted, domain)  # before the cap is charged
    given = {name: getattr(arguments, name) for name in ("cap", "relation", "name")}
    return Session.open(ledger_file(arguments.file), table, **given, backend=backend), beside


def _check_first(arguments: argparse.Namespace, wanted: AccuracyRequirement, domain: Domain) -> list[str]:
    """Refuse to begin a session by a slip of the name, or with a question that its cap could not answer.

    Returns:
        The names of the other sessions if this one is to be begun.

    Raises:
        ValueError: there is no such session yet, and its name is nearly that of another, or the answer alone
            costs more than the cap.
    """
    with open_ledger(arguments.file) as ledger:
        if begun(ledger, arguments.name, arguments.account):
            return []
        others = session_names(ledger)
    letters = [other for other in others if re.findall(r"\d+", other) == re.findall(r"\d+", arguments.name)]
    if near := difflib.get_close_matches(arguments.name, letters, 1, 0.8):
        raise ValueError(
            f"--name {arguments.name} is nearly {near[0]!r}, a session that is there: give that name. To "
            "begin another, which charges another cap, give it a name that is less like that. Nothing was "
            "charged."
        )
    unit = unit_of(arguments)
    relation, records = Relation.parse(arguments.relation), 1 if unit is None else unit.max_records
    cap = exact_epsilon(arguments.cap)

    def cost(requirement: AccuracyRequirement) -> Fraction:
        return requirement.price(domain, relation, laplace_for, records)[1]

    if cost(wanted) > cap:
        advice = wanted.advice(lambda requirement: cost(requirement) <= cap)
        raise ValueError(
            f"--half-width {wanted.half_width:g} is in records, and an answer as close as that costs epsilon "
            f"{float(cost(wanted)):.3g}, more than the cap of {as_text(cap)}. {advice} Nothing was charged."
        )
    return others


def _table(arguments: argparse.Namespace, domain: Domain) -> Dataset:
    """Return the table that the options name."""
    return Dataset.read(arguments.table, domain, unit=unit_of(arguments), **reading_of(arguments))


def _backend(arguments: argparse.Namespace) -> SeededBackend | None:
    """Return the source of repeatable noise, None for secure noise."""
    seed = arguments.insecure_seed
    return None if seed is None else SeededBackend(seed, insecure=True)


def _online_weights(arguments: argparse.Namespace) -> None:
    """Answer conditions as they come, from an estimate that is corrected where it is far off."""
    checks.refuse(
        (
            arguments.relation == Relation.ADD_REMOVE.value,
            "session online-weights needs --relation replace-one, and an account under it: its estimate is "
            "scaled to the number of records, which must be public. Under add-remove ask single counts, by "
            "pgmjax session ask.",
        )
    )
    settings = {
        name: getattr(arguments, name) for name in ("updates", "threshold", "expected_queries", "sweeps")
    }
    mechanism = OnlineWeights(arguments.epsilon, arguments.relation, backend=_backend(arguments), **settings)
    domain = Domain.read(arguments.domain)
    if not files.is_ledger(arguments.file) and any(map(files.is_ledger, arguments.condition)):
        raise ValueError(
            "The ledger stands before the conditions: pgmjax session online-weights LEDGER CONDITION."
        )
    for text in arguments.condition:
        query_text.parse(text, domain)  # reject a bad condition before anything is charged
    conditions = itertools.chain(arguments.condition) if arguments.condition else _lines()
    first = next(conditions, None)
    if first is None:
        raise ValueError("There is no condition to answer, such as sex=Male: nothing was charged.")
    data = _table(arguments, domain)
    refused = False
    with open_ledger(arguments.file) as ledger:
        opened = mechanism.open(data, ledger=ledger, key=arguments.name)
        for text in itertools.chain([first], conditions):
            try:
                query = query_text.parse(text, domain)
            except ValueError as error:  # of standard input, which goes on
                process.say(str(error))
                refused = True
                continue
            try:
                _tell(opened, text, query, arguments.json)
            except IdempotencyConflict as error:
                raise ValueError(
                    "Under this --name a run with other settings, such as --epsilon, or other conditions "
                    "was begun: repeat them as they were and in their order, or give another --name."
                ) from error
    if not opened.secure:
        process.say("The noise is repeatable: these answers protect nobody, use them for research only.")
    if refused:
        raise ValueError("Some conditions were not answered: see above.")


def _lines() -> Iterator[str]:
    """Yield the lines of standard input that hold something."""
    if sys.stdin.isatty():
        process.say("Type conditions, such as sex=Male, one a line; Ctrl-D ends.")
    yield from filter(None, map(str.strip, sys.stdin))


def _tell(opened: OnlineAnswers, text: str, query: Query, as_json: bool) -> None:
    """Answer one condition and print it at once."""
    measured, late = len(opened.measurements), opened.late
    value = float(opened.answer(query)[0])
    source = "measured" if len(opened.measurements) > measured else "estimate"
    compared = opened.late == late
    spent, whole = as_text(opened.spent.epsilon), as_text(opened.settings.epsilon)
    told = {"query": text, "value": value, "source": source, "compared": compared, "cost": spent}
    note = "" if compared else ", no longer compared with the table"
    said = f"{text}: {value:,.0f}, {source}{note}; epsilon {spent} of {whole} is spent"
    process.tell(as_json, {**told, "epsilon": whole, "secure": opened.secure}, [said])
    process.flush()


def _status(arguments: argparse.Namespace) -> None:
    with _read(arguments) as session:
        answers = list(session.answers())
        cost, cap, relation = as_text(session.cost), as_text(session.cap), session.relation.value
        unit, population = session.population.facts()["unit"], session.population.to_dict()
        secure, seed = session.secure, session.seed
    counts = {
        source: sum(a.source == source for a in answers) for source in ("history", "measured", "refused")
    }
    listed = [answer.to_dict() for answer in answers]
    told = {"name": arguments.name, "cap": cap, "cost": cost, "relation": relation, "unit": unit}
    told |= {"population": population, "secure": secure, "seed": seed}
    kinds = f"{counts['history']} free, {counts['measured']} measured, {counts['refused']} refused"
    whom = report_text.unit_name({"unit": unit})
    said = [
        f"Session {arguments.name}: {checks.counted(len(answers), 'query', 'queries')}, {kinds}.",
        f"  cost     epsilon {cost} of {cap} in the cell with the highest cost, {relation}, "
        f"protecting {whom}",
        f"  counts   of {population['phrase']}",
        *["  noise    repeatable: it protects nobody, use it for research only"] * (not secure),
    ]
    process.tell(arguments.json, {**told, **counts, "answers": listed}, said)


def _export(arguments: argparse.Namespace) -> None:
    out = pathlib.Path(arguments.out)
    if out.suffix:
        raise ValueError(f"--out {out} looks like a file, and a history is a folder: leave {out.suffix} out.")
    checks.new_path(out)
    with _read(arguments) as session:
        session.history.save(out)
        number, secure, seed = session.history.num_rows, session.secure, session.seed
    warning = "" if secure else "; the noise is repeatable, use them for research only"
    told = {"out": str(out), "answers": number, "secure": secure, "seed": seed}
    process.tell(arguments.json, told, [f"{number} noisy answers written to {out}{warning}"])
