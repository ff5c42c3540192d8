"""`pgmjax history`: answers to new queries from noisy answers that were given before."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import math
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax import job as jobs
from pgmjax._internal import checks, files
from pgmjax.cli import process
from pgmjax.cli.options.history import METHODS, TAKES
from pgmjax.cli.options.shared import LEVEL
from pgmjax.cli.release import read_names, warn_if_insecure
from pgmjax.cli.typed import of_file
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.history import (
    BestLinearUnbiased,
    CrossValidation,
    InferenceControl,
    KernelPCA,
    KernelRidge,
    MaxEntropy,
    NotEstimableError,
    ProductPrior,
    posterior,
)
from pgmjax.history.bayes.inference import Claim, Verdict
from pgmjax.history.history import (
    DESCRIPTION,
    IMPOSSIBLE_DEVIATIONS,
    History,
    contradiction,
    part_above_whole,
)
from pgmjax.history.rows import Rows
from pgmjax.learning import Learner, predictor
from pgmjax.learning.encodings import as_encoding
from pgmjax.learning.learners import as_learner
from pgmjax.measurements.inputs import are_secure, of_measurements
from pgmjax.measurements.published import read_published
from pgmjax.measurements.total import estimate_total
from pgmjax.queries import Product, Query, marginal
from pgmjax.queries import text as query_text
from pgmjax.queries.spec import in_words, row_names

_UNLIKELY = 1e-3  # chance of noise that is told to be unlikely
_WATCH = '{"query": "age<20", "at_least": 5}'
_CHECKED = 2000  # answers: as many are compared with one another within seconds


@dataclasses.dataclass(frozen=True)
class _Found:
    """Answers of a method.

    Attributes:
        values: [rows].
        columns: further numbers [rows, ...] of each answer, by name.
        facts: how they were computed, for JSON.
        notes: the same in words.
    """

    values: np.ndarray
    columns: dict[str, np.ndarray]
    facts: dict[str, Any]
    notes: tuple[str, ...]


def ask(arguments: argparse.Namespace) -> None:
    """Read the history, or a model trained on one, compute the answers and print them."""
    trained = (pathlib.Path(arguments.history) / predictor.FOLDER.record).is_file()
    _check_options(arguments, trained)
    if trained:
        _ask_predictor(arguments)
        return
    history = _read(arguments)
    if not len(history):
        raise ValueError(f"{arguments.history} holds no answer yet: ask the session for some first.")
    asked = _asked(arguments, history.domain)
    names = [name for named, query in asked for name in named]
    if len(history) <= _CHECKED:
        _check_agreement(history, arguments.total)
    found = _METHODS[arguments.method](history, [query for _, query in asked], arguments)
    told_of = {name for each in history.measurements for name in each.clique}
    if unknown := sorted({name for _, query in asked for name in query.clique} - told_of):
        note = f"No answer is about {', '.join(unknown)}: the history has {', '.join(sorted(told_of))}."
        found = dataclasses.replace(found, notes=(*found.notes, note))
    told = {"method": arguments.method, "answers_used": len(history), "secure": history.secure}
    _print(found, names, arguments, told)
    warn_if_insecure(of_measurements(history.measurements))


def train(arguments: argparse.Namespace) -> None:
    """Train a model on the noisy answers of a history, write it into a folder, and print where it lies."""
    out = files.check_target(arguments.out)
    history = _read(arguments)
    learners = [learner_named(text) for text in arguments.learner or ["linear"]]
    encoding = as_encoding(arguments.encoding)
    for learner in learners:
        predictor.check_writable(learner, encoding)
    if history.num_rows < 2:
        raise ValueError(
            "A model is trained on several answers, and the history has one: ask for more first."
        )
    if len(history) <= _CHECKED:
        _check_agreement(history, None)
    settings: dict[str, Any] = {"encoding": encoding, "universe": arguments.universe, "seed": arguments.seed}
    settings["folds"] = 5 if arguments.folds is None else arguments.folds
    found, errors = predictor.learn(history.domain, history.measurements, learners, **settings)
    with files.reserve_folder(out) as folder:
        found.save(folder, seed=arguments.seed)
    name = found.parts[0].fitted.learner.name
    tried = [{"learner": one, "error": error} for one, error in errors]
    told = {"learner": name, "answers_used": history.num_rows, "tried": tried, "secure": history.secure}
    said = [
        f"Trained model written to {out}: {name} on {history.num_rows:,} noisy answers.",
        *(
            f"  {one}: misses answers that it was not trained on by about {error:,.1f}"
            for one, error in errors
        ),
        f"  ask  pgmjax history ask {out} CONDITION",
    ]
    process.tell(arguments.json, {"out": str(out), **told}, said)
    warn_if_insecure(found.inputs)


def learner_named(text: str) -> Learner:
    """Return the learner that an option names, by its name or by its settings as JSON."""
    return as_learner(files.parse_json(text) if text.startswith("{") else text)


def _ask_predictor(arguments: argparse.Namespace) -> None:
    """Print the answers of a trained model, with a bound of the noise in them where one is known."""
    found = predictor.read(arguments.history)
    asked = _asked(arguments, found.domain)
    values = [found.predict(query) for _, query in asked]
    columns: dict[str, np.ndarray] = {}
    with contextlib.suppress(ValueError):  # a learner that is not linear in its answers
        bounds = [found.half_widths(query, 1 - arguments.level) for _, query in asked]
        columns["noise"], columns["determined"] = map(np.concatenate, zip(*bounds, strict=True))
    learner, secure = found.parts[0].fitted.learner.name, are_secure(found.inputs)
    number = sum(part.answers.size for part in found.parts)
    note = f"Predicted by {learner}, trained on {number:,} noisy answers."
    told = {"method": "predictor", "answers_used": number, "secure": secure}
    names = [name for named, _ in asked for name in named]
    shown = _Found(np.concatenate(values), columns, {"learner": learner, "level": arguments.level}, (note,))
    _print(shown, names, arguments, told)
    warn_if_insecure(found.inputs)


def _print(
    found: _Found, names: Sequence[str], arguments: argparse.Namespace, told: Mapping[str, Any]
) -> None:
    """Print answers under the names of their queries."""
    listed, said = [], []
    columns = {kind: column.tolist() for kind, column in found.columns.items()}
    for i, (name, value) in enumerate(zip(names, found.values, strict=True)):
        numbers = {kind: column[i] for kind, column in columns.items()}
        listed.append({"query": name, "estimate": float(value), **numbers})
        said.append(f"{name}: {', '.join([f'{value:,.1f}', *_words(numbers, arguments)])}")
    process.tell(arguments.json, {**told, **found.facts, "answers": listed}, [*said, *found.notes])


def _check_options(arguments: argparse.Namespace, trained: bool) -> None:
    """Reject options of another method or of a history, and set the defaults of this one."""
    if trained:
        options = [name for name in ("method", "domain", "stddev", "rounded_to", *TAKES) if name != "level"]
        named = process.first_of(arguments, options)
        model = f"{arguments.history} is a trained model"
        checks.refuse((named, f"{named} is for a history, and {model}: leave it out."))
    arguments.method = METHODS[0] if arguments.method is None else arguments.method
    for name, methods in TAKES.items():
        given = getattr(arguments, name) not in (None, False) and not trained
        if given and arguments.method not in methods:
            raise ValueError(
                f"--{name.replace('_', '-')} is of --method {' and '.join(methods)}, and the method is "
                f"{arguments.method}: leave it out or take such a method."
            )
    arguments.alpha = _alpha(arguments.alpha)
    arguments.level = LEVEL if arguments.level is None else arguments.level
    ways = [arguments.condition + arguments.query, arguments.marginal, arguments.workload]
    if sum(map(bool, ways)) != 1:
        raise ValueError(
            "Say what to ask: conditions such as 'sex=Male,age<30', or --marginal NAMES, or --workload FILE."
        )


def _alpha(text: str | None) -> float | None:
    """Return the alpha of the option, None for auto."""
    if text is None or text.lower() == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise ValueError(f"--alpha must be a number > 0, infinity or auto, got {text[:40]!r}.")
    return value


def _read(arguments: argparse.Namespace) -> History:
    """Read the folder of a session, or a file of published answers."""
    path = pathlib.Path(arguments.history)
    if path.is_dir():
        named = process.first_of(arguments, ("domain", "stddev", "rounded_to"))
        checks.refuse(
            (
                (path / "measurements.parquet").is_file(),
                f"{path} is a release: give its noisy counts, {path / 'measurements.parquet'}, and --domain.",
            ),
            (named, f"{named} is for a file: {path} is a folder, which says it itself."),
            (
                not (path / DESCRIPTION).is_file(),
                f"{path} has no {DESCRIPTION}: give a folder that pgmjax session export wrote, or a file "
                "of published numbers.",
            ),
        )
        return History.load(path)
    checks.refuse(
        (
            files.is_ledger(path),
            f"{path} is no file of answers. If it is a ledger, pgmjax session export makes a history of it.",
        ),
        (arguments.domain is None, f"--domain is missing: the domain file of the answers in {path}."),
    )
    domain = Domain.read(arguments.domain)
    try:
        found = read_published(path, domain, stddev=arguments.stddev, rounded_to=arguments.rounded_to)
    except ValueError as error:
        raise ValueError(of_file(path, error)) from error
    return History(domain, found.answered, secure=found.secure)


def _asked(arguments: argparse.Namespace, domain: Domain) -> list[tuple[list[str], Query]]:
    """Return the queries with a name for each of their rows."""
    if arguments.marginal:
        queries: list[Query] = [marginal(read_names(arguments.marginal, domain))]
    elif arguments.workload:
        queries = [entry.query for entry in jobs.read_workload(arguments.workload, domain).entries]
    else:
        texts = arguments.condition + arguments.query
        return [([text], query_text.parse(text, domain)) for text in texts]
    return [(list(row_names_of(query, domain)), query) for query in queries]


def row_names_of(query: Query, domain: Domain) -> Iterator[str]:
    """Yield what each row of a query counts."""
    if not isinstance(query, Product):
        for row in range(query.num_rows(domain)):
            yield f"{','.join(query.clique)} ({in_words(query)}) row {row + 1}"
        return
    parts = [
        [
            f"{name} ({block.kind})" if word is None else f"{name}={word}"
            for word in row_names(block, domain.attribute(name).code_names())
        ]
        for name, block in zip(query.clique, query.blocks, strict=True)
    ]
    yield from map(",".join, itertools.product(*parts))


def _check_sizes(history: History, total: float | None) -> None:
    """Reject an answer that counts far more than all records."""
    variance = 0.0
    if total is None:
        try:
            total, variance = estimate_total(history.domain, history.measurements)
        except ValueError:  # no answer tells it
            return
    first = 0
    for each in history.measurements:
        most = float(each.query.linf_sensitivity(Relation.ADD_REMOVE, history.domain)) * total
        over = (np.abs(each.flat_values()) - most) / np.sqrt(each.row_stddevs() ** 2 + variance)
        if (worst := int(np.argmax(over))) >= 0 and over[worst] > IMPOSSIBLE_DEVIATIONS:
            raise ValueError(
                f"Answer {first + worst + 1} is {over[worst]:,.0f} standard deviations of its noise above "
                f"what all records, about {total:,.0f}, can give. Correct it or its standard deviation."
            )
        first += len(over)


def _check_agreement(history: History, total: float | None) -> None:
    """Reject answers that noise of the stated size cannot explain, such as exact ones that contradict."""
    with warnings.catch_warnings(action="ignore"):  # it is an error here
        fitted = KernelPCA.of(history, total=total).fitted()
    _check_sizes(history, total)
    left, known = history.values - fitted.values, fitted.stddevs
    assert known is not None  # of all methods that fit by the spectrum
    told = contradiction(history.values, fitted.values, history.stddevs, total)
    if told is None and history.num_rows <= _CHECKED:
        told = part_above_whole(history)
    if told:
        raise ValueError(told[0].upper() + told[1:])
    # a residual varies by less than its noise, and that by nothing where an answer stands alone
    free = history.stddevs**2 - known**2
    own = np.abs(left) / np.sqrt(np.maximum(free, 1e-9 * history.stddevs**2))
    most = float(np.max(own, where=free > 1e-9 * history.stddevs**2, initial=0.0))
    if most > (math.log(len(left)) - math.log(_UNLIKELY)) / math.sqrt(
        2
    ):  # of Laplace noise, the heavier tail
        process.say(
            f"The answers hardly agree: one is {most:.1f} standard deviations away from what the others "
            f"say, which their noise explains less than once in {1 / _UNLIKELY:,.0f} times. Is a "
            "number or a scale mistyped?"
        )


def _kernel_pca(history: History, asked: Sequence[Query], arguments: argparse.Namespace) -> _Found:
    pca, prior, alpha, error, name = _regularisation(history, arguments)
    pca = KernelPCA.of(history, prior, arguments.total) if pca is None else pca
    answers = pca.answer(asked, alpha)
    assert answers.stddevs is not None and answers.distances is not None and answers.estimable is not None
    values, stddevs = answers.values, answers.stddevs
    biases = alpha * answers.distances if math.isfinite(alpha) else np.zeros(len(values))
    facts, words = _of_choice(alpha, error, name)
    if error is not None and math.isfinite(alpha):
        sure = pca.answer(asked, math.inf)  # estimable ones without bias
        assert sure.stddevs is not None
        # what others say of a query is worth less than it cross-validation says than the answers about itself
        known = answers.estimable & (sure.stddevs**2 < error)
        values, stddevs = np.where(known, sure.values, values), np.where(known, sure.stddevs, stddevs)
        biases = np.where(known, 0.0, biases)
        if known.any():
            words += ("Answers that the history determines with less error than that are unbiased.",)
    columns = {"stddev": stddevs, "determined": answers.estimable}
    if math.isfinite(alpha):
        columns["bias"] = biases
    return _Found(values, columns, facts, words)


def _ridge(history: History, asked: Sequence[Query], arguments: argparse.Namespace) -> _Found:
    _, prior, alpha, error, name = _regularisation(history, arguments)
    answers = KernelRidge.fit(history, alpha, prior, arguments.total).answer(asked)
    assert answers.stddevs is not None and answers.distances is not None
    columns = {"stddev": answers.stddevs, "bias": alpha * answers.distances}
    return _Found(answers.values, columns, *_of_choice(alpha, error, name))


def _regularisation(
    history: History, arguments: argparse.Namespace
) -> tuple[KernelPCA | None, ProductPrior | None, float, float | None, str]:
    """Return the prior and the alpha: those given, or those of least error in cross-validation.

    Returns:
        The decomposition under the prior, None where none was needed; the prior; alpha; its squared error,
        None where it was given; and the prior's name.
    """
    name = arguments.prior or "uniform"
    tried = {name: _prior(name, history)}
    if arguments.alpha is not None:
        return None, tried[name], arguments.alpha, None, name
    if len(history) < 2:
        raise ValueError(
            "--alpha is found by cross-validation, which needs two answers or more: give it, such as "
            "--alpha infinity."
        )
    learnt = _learnt(history) if arguments.prior is None else None
    unseen = np.ones(len(history), bool)
    if learnt is not None:
        tried["one-way tables"], used = learnt
        unseen = ~used  # what the prior was made of is no test of it
    folds = min(5, len(history)) if arguments.folds is None else arguments.folds
    found = []
    for name, prior in tried.items():
        pca = KernelPCA.of(history, prior, arguments.total)
        validation = CrossValidation.k_fold(pca, folds)
        choice = validation.choose()
        error = float(np.mean(validation.residuals(choice.alpha)[unseen] ** 2))
        found.append((error, pca, choice, name))
    _, pca, choice, name = min(found, key=lambda each: each[0])
    return pca, pca.prior, choice.alpha, choice.error, name


def _learnt(history: History) -> tuple[ProductPrior, np.ndarray] | None:
    """Return the prior of the history's one-way tables and which answers they are; None without any.

    None too if there is no other answer to test it with.
    """
    tables: dict[str, Any] = {}
    used = []
    for measurement in history.measurements:
        is_table = len(measurement.clique) == 1 and measurement.query == marginal(measurement.clique)
        taken = is_table and measurement.noise != "response" and measurement.clique[0] not in tables
        if taken:
            tables[measurement.clique[0]] = measurement
        used += [taken] * measurement.values.size
    if not tables or all(used):
        return None
    return ProductPrior.from_measurements(history.domain, list(tables.values())), np.array(used)


def _prior(text: str, history: History) -> ProductPrior | None:
    """Return the prior that the option names, None for the uniform one."""
    if text == "uniform":
        return None
    if not pathlib.Path(text).is_file():
        raise ValueError(f"--prior must be uniform or a JSON file; there is no file {text}.")
    try:
        given = files.parse_json(files.read_text(pathlib.Path(text)))
        if isinstance(given, dict) and any(isinstance(each, dict) for each in given.values()):
            raise ValueError(
                "the probabilities of an attribute are a list in the order of the domain's values, without "
                'their names, as in {"sex": [0.5, 0.5]}.'
            )
        return ProductPrior(history.domain, given)
    except (TypeError, ValueError) as error:
        raise ValueError(of_file(text, error)) from error


def _of_choice(alpha: float, error: float | None, prior: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return alpha, prior and the squared error in cross-validation, for JSON and in words."""
    facts: dict[str, Any] = {"alpha": alpha if math.isfinite(alpha) else "infinity", "prior": prior}
    words = f"alpha {alpha:.3g}, prior {prior}"
    if error is not None:
        facts["squared_error"] = error
        words += ", by cross-validation: answers to queries of this kind miss by about "
        words += f"{math.sqrt(max(error, 0.0)):,.1f}"
    return facts, (f"Computed with {words}.",)


def _maximum_entropy(history: History, asked: Sequence[Query], arguments: argparse.Namespace) -> _Found:
    name = arguments.prior or "uniform"
    prior = _prior(name, history)
    total = arguments.total
    if total is None:
        total = estimate_total(history.domain, history.measurements)[0]
    fit = MaxEntropy(alpha=arguments.alpha, prior=prior, progress=False).fit(history, total)
    values = np.concatenate([np.ravel(fit.model.answer(query)) for query in asked])
    facts = {"alpha": fit.alpha, "prior": name, "total": total, "gap": fit.gap, "status": fit.status.name}
    known = "public" if arguments.total is not None else "estimated"
    words = f"alpha {fit.alpha:.3g}, prior {name} and {total:,.1f} records ({known})"
    certified = f"certified to {fit.gap:.1g} nats" if math.isfinite(fit.gap) else "without a certificate"
    return _Found(values, {}, facts, (f"Computed with {words}; the fit is {certified}.",))


def _best_linear(history: History, asked: Sequence[Query], arguments: argparse.Namespace) -> _Found:
    blue, notes = _blue(history, arguments)
    rows = Rows.of(asked, history.domain)
    try:
        blue.combination(rows, biased=arguments.biased)
    except NotEstimableError as error:
        raise ValueError(
            f"{str(error).partition(' Ask for what')[0]} Nothing tells how their parts go together: leave "
            "--method out, or take --method maximum-entropy, for an estimate. --biased gives the one of "
            "least norm."
        ) from error
    found = [blue.answer(rows.take([i]), biased=arguments.biased) for i in range(rows.num_rows)]
    columns: dict[str, Any] = {
        "stddev": np.array([each.stddev for each in found]),
        "interval": np.array([each.interval(arguments.level) for each in found]),
        "determined": np.array([not each.biased for each in found]),
    }
    columns |= _verdicts(arguments, lambda claim: [each.test(claim, arguments.level) for each in found])
    return _Found(np.array([each.value for each in found]), columns, {"level": arguments.level}, notes)


def _posterior(history: History, asked: Sequence[Query], arguments: argparse.Namespace) -> _Found:
    blue, notes = _blue(history, arguments)
    found = posterior(blue, Rows.of(asked, history.domain))
    number = len(found.mean)
    columns: dict[str, Any] = {
        "stddev": found.stddev,
        "interval": np.array([found.interval(arguments.level, i) for i in range(number)]),
    }
    columns |= _verdicts(
        arguments,
        lambda claim: [
            Verdict(claim, found.probability(claim, i)[0], arguments.level) for i in range(number)
        ],
    )
    facts = {"level": arguments.level, "mixed": found.mixed, "rhat": float(found.rhat.max())}
    if not found.mixed:
        notes = (*notes, f"The chains do not agree yet (R-hat {found.rhat.max():.2f}): take these as rough.")
    return _Found(found.mean, columns, facts, notes)


def _verdicts(arguments: argparse.Namespace, test: Callable[[Claim], list[Verdict]]) -> dict[str, np.ndarray]:
    """Return how probable the claim is for each answer, and whether it holds; nothing without a claim."""
    claim = _claim(arguments)
    if claim is None:
        return {}
    verdicts = test(claim)
    probabilities = np.array([verdict.probability for verdict in verdicts])
    return {"probability": probabilities, "holds": np.array([each.holds for each in verdicts], object)}


def _blue(history: History, arguments: argparse.Namespace) -> tuple[BestLinearUnbiased, tuple[str, ...]]:
    checks.number("level", arguments.level, above=0, below=1)
    unknown = any(distribution is None for distribution in history.distributions)
    continuous = arguments.continuous or unknown
    note = "The noise is taken to be continuous." if continuous else ""
    blue = BestLinearUnbiased.of(history, continuous=continuous)
    if arguments.watch is not None:
        watched = _watched(arguments.watch, history.domain)
        InferenceControl(watched, arguments.level).check(blue)
    return blue, (note,) * bool(note)


def _watched(path: str, domain: Domain) -> list[tuple[Query, Claim]]:
    """Return the claims of a file that must not become certain.

    Raises:
        ValueError: it is absent or holds something else; the message has the number of the entry.
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise ValueError(files.absent("file of --watch", path))
    try:
        entries = files.parse_json(files.read_text(file))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{path} must be a JSON list of what is watched, such as [{_WATCH}].")
    return [_watched_claim(f"{path}, entry {n}", entry, domain) for n, entry in enumerate(entries, 1)]


def _watched_claim(where: str, entry: Any, domain: Domain) -> tuple[Query, Claim]:
    ends = {"at_least", "at_most"}
    named = set(entry) if isinstance(entry, dict) else set()
    if not named & ends or named - ends != {"query"} or not isinstance(entry["query"], str):
        raise ValueError(f"{where}, must have query, and at_least or at_most, alone, such as {_WATCH}.")
    try:
        asked = query_text.conditions(entry["query"], domain).query
        return asked, Claim(entry.get("at_least", -math.inf), entry.get("at_most", math.inf))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _claim(arguments: argparse.Namespace) -> Claim | None:
    """Return the claim to test, None if there is none."""
    low, high = arguments.at_least, arguments.at_most
    if low is None and high is None:
        return None
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if not low <= high:
        raise ValueError(f"--at-least must be at most --at-most, got {low:g} and {high:g}.")
    return Claim(low, high)


def _words(columns: dict[str, Any], arguments: argparse.Namespace) -> Iterator[str]:
    """Yield numbers of an answer in words."""
    if "stddev" in columns:
        yield f"standard error {columns['stddev']:,.1f}"
    if "noise" in columns:
        yield f"of which noise at most {columns['noise']:,.1f} with a probability of {arguments.level:.0%}"
    if "bias" in columns:
        yield f"bias of about {columns['bias']:,.1f}"
    if "interval" in columns and columns.get("determined", True):
        low, high = columns["interval"]
        yield f"{arguments.level:.0%} interval {low:,.1f} to {high:,.1f}"
    if "probability" in columns:
        verdict = {True: "it holds", False: "it does not hold", None: "open"}[columns["holds"]]
        yield f"claim {columns['probability']:.1%}: {verdict}"
    if not columns.get("determined", True):
        yield "not determined by the history, so that no interval is known"


_METHODS: dict[str, Callable[[History, Sequence[Query], argparse.Namespace], _Found]] = {
    "kernel-pca": _kernel_pca,
    "ridge": _ridge,
    "maximum-entropy": _maximum_entropy,
    "best-linear": _best_linear,
    "posterior": _posterior,
}
