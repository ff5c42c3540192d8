"""The answers of a release to its evaluator: its claim in native parameters, and NIST SP 800-226's hazards.

`HAZARDS` is the one table of them: `assurance.json`, the report and docs/privacy-officer.md are made from it.
All answers follow from the record of the release and its noisy answers, so they cost no further privacy.

References:
    NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees", March 2025. The hazards and
    the numbers of their sections are those of the initial public draft, December 2023.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import formats
from pgmjax.data.population import Population
from pgmjax.data.relation import Relation, Unit, change
from pgmjax.measurements import inputs
from pgmjax.measurements.inputs import PRIOR, Input
from pgmjax.privacy.accounting.zcdp import epsilon_of
from pgmjax.privacy.exact import as_text, exact
from pgmjax.queries.workload import Workload
from pgmjax.release import accuracy
from pgmjax.release import statement as report_text
from pgmjax.release.accuracy import CountEstimates
from pgmjax.release.statement import WEAK, is_large, of_epsilon

NAME = "assurance.json"
SOURCE = (
    "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees; the numbers of sections are "
    "those of the initial public draft (December 2023)"
)
SHOWN, PARTLY, NOT_PROVIDED, OUT_OF_SCOPE, YOURS = STATUSES = (
    "shown",
    "partly",
    "not provided",
    "out of scope",
    "your decision",
)
MEANINGS = {
    SHOWN: "this release shows it",
    PARTLY: "this release shows a part of it, and the evidence says what is open",
    NOT_PROVIDED: "this release does not have it",
    OUT_OF_SCOPE: "nothing of the kind is released",
    YOURS: "whoever is responsible for the data has to decide or arrange it",
}
_MOST = 10  # names in a sentence
DELTAS = ("1e-6", "1e-9", "1e-12")
"""Where the curve of epsilon over delta is told, besides the delta that was asked for."""
FILES = {
    "release.json": ("the guarantee, the budget spent and the fit, for programs", False),
    NAME: ("these answers, for programs", True),
    "measurements.parquet": (
        "the noisy answers, with the columns clique, row, value, stddev and noise",
        False,
    ),
    "model": ("the fitted model", True),
    "answers.parquet": (
        "the answers to the workload, with the columns query, one for each attribute, clique, cell, "
        "estimate, stddev, noise_stddev, low and high",
        True,
    ),
    "synthetic.parquet": ("rows drawn from the model", True),
    "synthetic.csv": ("rows drawn from the model", True),
    "report.html": ("the report", True),
    "domain.json": ("the domain that was found", False),
    "distances.parquet": ("noisy distances that the mechanism published", False),
    "transcript.json": ("the draws and records of the game", False),
    "predictor": ("the trained model", False),
}
"""Of each file of a release what it holds, and whether it can be made again from the others."""
COMMON = (
    *("release.json", "measurements.parquet", "model", "synthetic.parquet", NAME, "report.html"),
    "answers.parquet",
)
"""The files that `Release.save` writes of every release."""


@dataclasses.dataclass(frozen=True)
class ReleaseRecord:
    """A release as its evaluator sees it.

    Attributes:
        record: content of `release.json`.
        estimates: unbiased answers from the noisy ones.
    """

    record: Mapping[str, Any]
    estimates: CountEstimates

    @property
    def spent(self) -> Mapping[str, str]:
        """The cost of all inputs together, as exact texts."""
        found: Mapping[str, str] = self.record["spent"]
        return found

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of all inputs together."""
        return exact("epsilon", self.spent["epsilon"])

    @property
    def failure(self) -> tuple[Fraction, float]:
        """The delta of all inputs together, and the number of records that it is to be far below one over."""
        return exact("delta", self.spent["delta"]), float(self.record.get("total", 1.0))

    @functools.cached_property
    def inputs(self) -> tuple[Input, ...]:
        """All that the release was computed from."""
        return inputs.from_list(self.record["inputs"])

    @property
    def label_delta(self) -> Fraction:
        """The probability of showing a rare label in full."""
        return sum((exact("delta", each.label_delta) for each in self.inputs), Fraction(0))

    @functools.cached_property
    def accounting(self) -> str:
        """The account of the claim: "pure" (epsilons), "zcdp" (rhos) or "approximate" (with delta)."""
        delta = exact("delta", self.spent["delta"])
        if delta == 0:
            return "pure"
        if "rho" not in self.spent or delta <= self.label_delta:
            return "approximate"
        least = epsilon_of(exact("rho", self.spent["rho"]), delta - self.label_delta)
        return "zcdp" if least <= self.epsilon else "approximate"

    @property
    def unit(self) -> Unit | None:
        """The unit of privacy, None for one record."""
        return Unit.from_dict(self.record.get("unit"))

    @property
    def accuracy(self) -> Mapping[str, Any]:
        """The verdicts; empty if they could not be computed."""
        return self.record.get("accuracy") or {}

    @property
    def sizes(self) -> list[dict[str, Any]]:
        """The accuracy of groups by size; empty if no count is determined."""
        return list(self.accuracy.get("sizes", ()))

    @property
    def ledger(self) -> Mapping[str, Any]:
        """The account that was charged; empty without a ledger."""
        return self.record.get("ledger") or {}

    @property
    def found(self) -> tuple[str, ...]:
        """The columns whose values were found by a charged mechanism."""
        notes = (self.record.get("discovery") or {}).get("notes", {})
        return tuple(name for name in self.estimates.domain if name in notes)

    def curve(self) -> list[dict[str, str]]:
        """Return an epsilon for several deltas, smallest delta first.

        Each pair is a guarantee of the release as a whole. A pure epsilon holds at every delta. A rho gives
        an epsilon at each; what labels may cost of delta is added to it.
        """
        asked = exact("delta", self.spent["delta"])
        if self.accounting == "approximate" and "rho" not in self.spent:
            return [{"delta": as_text(asked), "epsilon": as_text(self.epsilon)}]
        risk = self.label_delta
        deltas = sorted({asked, *(risk + exact("delta", delta) for delta in DELTAS)})
        if self.accounting == "pure":
            return [{"delta": as_text(delta), "epsilon": as_text(self.epsilon)} for delta in deltas]
        rho = exact("rho", self.spent["rho"])
        return [
            {"delta": as_text(delta), "epsilon": _rounded_up(epsilon_of(rho, delta - risk))}
            for delta in deltas
            if delta > risk
        ]


def _rounded_up(value: float) -> str:
    """Return a number as text of six digits that is not below it."""
    context = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
    return f"{context.create_decimal_from_float(value).normalize():f}"


@dataclasses.dataclass(frozen=True)
class HazardAnswer:
    """The answer of a release to one hazard.

    Attributes:
        status: one of `STATUSES`.
        evidence: what the release shows, in words.
        facts: the numbers and names behind it, for programs.
    """

    status: str
    evidence: str
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Answer = Callable[[ReleaseRecord], HazardAnswer]
"""What a release answers to one hazard."""


@dataclasses.dataclass(frozen=True)
class Hazard:
    """A privacy hazard of NIST SP 800-226.

    Attributes:
        number: from 1.
        section: of the initial public draft.
        title: the hazard.
        tells: what a release tells of it, in general.
        page: where docs/ explains it, "" if nowhere.
        test: path and name of the test that holds it.
        answer: the answer of a release.
    """

    number: int
    section: str
    title: str
    tells: str
    page: str
    test: str
    answer: Answer


def of(record: Mapping[str, Any], estimates: CountEstimates) -> dict[str, Any]:
    """Return what a release answers to its evaluator, for JSON.

    Args:
        record: content of `release.json`.
        estimates: unbiased answers from the released noisy ones.

    Returns:
        The claim (`secure`, `accounting`, `epsilon`, `delta`, `rho`, `curve`, `label_delta`, `relation`,
        `neighbours`, `unit`, `inputs`), `source`, the meanings of `statuses`, and `hazards`: for each of
        `HAZARDS` its `number`, `section`, `title`, `status`, `evidence` and `facts`.
    """
    release = ReleaseRecord(record, estimates)
    hazards = []
    for each in HAZARDS:
        found = each.answer(release)
        named = {"number": each.number, "section": each.section, "title": each.title}
        hazards.append({**named, **dataclasses.asdict(found)})
    return {
        **formats.ASSURANCE.heading(),
        "secure": record["secure"],
        "accounting": release.accounting,
        **release.spent,
        "label_delta": as_text(release.label_delta),
        "curve": release.curve(),
        "relation": record["relation"],
        "neighbours": change(release.unit, Relation.parse(record["relation"])),
        "unit": record.get("unit"),
        "inputs": inputs.to_list(release.inputs),
        "source": SOURCE,
        "statuses": MEANINGS,
        "hazards": hazards,
    }


def _promised(answer: Answer) -> Answer:
    """Return an answer about the claim, which noise that can be taken off does not keep."""

    def of_noise(release: ReleaseRecord) -> HazardAnswer:
        found = answer(release)
        if release.record["secure"]:
            return found
        said = f"The noise of this release protects nobody. Of secure noise this would hold: {found.evidence}"
        return HazardAnswer(NOT_PROVIDED, said, found.facts)

    return of_noise


def _listed(names: Iterable[str]) -> str:
    """Return names in words; `facts` have all of them."""
    return accuracy.few([*names], _MOST) or "none"


def _large_epsilon(release: ReleaseRecord) -> HazardAnswer:
    status = SHOWN if release.epsilon <= WEAK else YOURS
    said = f"{of_epsilon(release.epsilon, *release.failure)} It was asked for; there is no default."
    return HazardAnswer(status, said, {"epsilon": release.spent["epsilon"], "warned_above": WEAK})


def _failure(release: ReleaseRecord) -> HazardAnswer:
    delta, risk = release.spent["delta"], release.label_delta
    if release.accounting == "pure":
        return HazardAnswer(
            SHOWN, "delta is 0, so no probability is set aside for failure.", {"delta": delta}
        )
    converts = release.accounting == "zcdp"
    said = f"delta = {delta} is a part of how the costs were added up."
    if converts:
        rho = release.spent["rho"]
        said = f"Costs were added in rho (zCDP). delta = {delta} converts rho = {rho} to epsilon."
    if risk:
        said += f" Of it, {as_text(risk)} is the probability that a label that one unit alone has is shown."
    status = SHOWN if converts and not risk else PARTLY
    if is_large(*release.failure):
        status = YOURS
        said += " It is not far below 1 / (number of records), as it should be."
    return HazardAnswer(status, said, {"delta": delta, "label_delta": as_text(risk)})


def _native(release: ReleaseRecord) -> HazardAnswer:
    points = "; ".join(f"epsilon {each['epsilon']} at delta {each['delta']}" for each in release.curve())
    if release.accounting == "pure":
        said = f"The native parameter is epsilon = {release.spent['epsilon']}, the same at every delta."
    elif release.accounting == "zcdp":
        said = f"The native parameter is rho = {release.spent['rho']}: {points}.{_beside_claim(release)}"
    else:
        said = f"Costs were added up as (epsilon, delta): {points}."
    status = SHOWN if release.accounting in ("pure", "zcdp") else PARTLY
    return HazardAnswer(status, said, {"accounting": release.accounting, "curve": release.curve()})


def _beside_claim(release: ReleaseRecord) -> str:
    """Return a sentence, with a space before it, if the claim is more than the curve has at its delta."""
    delta = release.spent["delta"]
    given = [exact("epsilon", each["epsilon"]) for each in release.curve() if each["delta"] == delta]
    if not given or given[0] >= release.epsilon:
        return ""
    paid = sum(each.cost is not None for each in release.inputs)
    why = ", as it adds up what each input claims" * (paid > 1)
    return (
        f" The claim, epsilon {release.spent['epsilon']} at delta {delta}, is more than rho gives there{why}."
    )


def _unit(release: ReleaseRecord) -> HazardAnswer:
    relation = Relation.parse(release.record["relation"])
    said = f"Neighbouring tables ({relation.value}): {change(release.unit, relation)}."
    number = "is not protected" if relation is Relation.REPLACE_ONE else "is protected"
    counted = "The total weight" if release.record.get("weighted") else "The number of records"
    number = "is protected" if release.record.get("weighted") else number
    said += f" {counted} {number}. What many units have in common is learned, and meant to be."
    return HazardAnswer(SHOWN, said, {"relation": relation.value, "unit": release.record.get("unit")})


def _people(release: ReleaseRecord) -> HazardAnswer:
    if release.unit is None:
        grows = {"pure": "k times that epsilon", "zcdp": "k² times that rho"}.get(release.accounting, "less")
        return HazardAnswer(
            YOURS,
            "One record is protected, not one person. Somebody with k records is protected by "
            f"{grows}. Decide whether anybody can have several, and name the unit if so.",
            {"max_records": 1},
        )
    column, most = release.unit.column, release.unit.max_records
    return HazardAnswer(
        SHOWN,
        f"All records of one {column} are protected together, of which at most {most} count. A record "
        f"without {column} is protected by itself.",
        release.unit.to_dict(),
    )


def _comparable(release: ReleaseRecord) -> HazardAnswer:
    return HazardAnswer(
        SHOWN,
        f"{NAME} has the claim for programs: relation, unit, accounting, parameters and curve. It compares "
        f"with claims under {release.record['relation']} for {report_text.unit_name(release.record)} only.",
    )


def _other_releases(release: ReleaseRecord) -> HazardAnswer:
    earlier = [each.words for each in release.inputs if each.role == PRIOR and each.cost is not None]
    public = [each.name for each in release.inputs if each.cost is None]
    said = f" It follows an earlier release, whose cost is counted: {_listed(earlier)}." if earlier else ""
    said += f" It rests on what is taken to be public: {_listed(public)}." if public else ""
    if not release.ledger:
        said = f"No ledger counted this release, so nobody added up what others of this table cost.{said}"
        return HazardAnswer(YOURS, said, {"exact": None})
    figures = release.ledger.get("exact", [])
    noted = _listed(each["what"] for each in figures)
    said = (
        f"Account {release.ledger['account']} of a ledger adds up what releases of this table cost; this is "
        f"charge {release.ledger['charge']}. Exact figures that were noted before it: {noted}. What nobody "
        f"noted is in no account.{said}"
    )
    return HazardAnswer(PARTLY, said, {"exact": figures})


def _samplers(release: ReleaseRecord) -> HazardAnswer:
    versions = release.record["versions"]
    made = f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}."
    if release.record["secure"]:
        return HazardAnswer(SHOWN, f"All noise came from OpenDP's samplers. {made}", {"versions": versions})
    bad = _listed(each.name for each in release.inputs if each.secure is False)
    said = f"The noise of {bad} can be repeated or is of somebody's own, and protects nobody. {made}"
    return HazardAnswer(NOT_PROVIDED, said, {"versions": versions})


def _accuracy(release: ReleaseRecord) -> HazardAnswer:
    columns = release.accuracy.get("columns", [])
    if not columns:
        return HazardAnswer(PARTLY, "The verdicts on columns could not be computed.")
    named = {
        kind: [one["attributes"][0] for one in columns if one["verdict"] == kind]
        for kind in accuracy.VERDICTS
    }
    parts = (f"{len(names)} {kind} ({_listed(names)})" for kind, names in named.items() if names)
    every = [*columns, *release.accuracy["tables"]]
    open_ones = [one for one in every if one["verdict"] == accuracy.NOT_DETERMINED]
    said = f"Verdicts on the columns: {'; '.join(parts)}."
    if len(open_ones) < len(every):
        said += " Every determined answer has a 95 % interval."
    if open_ones:
        rest = "rests" if len(open_ones) == 1 else "rest"
        some = _listed(" by ".join(one["attributes"]) for one in open_ones)
        said += f" {some} {rest} on the model alone, without an interval."
    return HazardAnswer(PARTLY if open_ones else SHOWN, said, {"columns": named})


def _small_groups(release: ReleaseRecord) -> HazardAnswer:
    if not release.sizes:
        return HazardAnswer(NOT_PROVIDED, "No count is determined, so none has an interval.", {"sizes": []})
    parts = (
        f"{_class(each)}: {'unknown' if each['relative'] is None else accuracy.within(each['relative'])}"
        for each in release.sizes
    )
    said = (
        "The noise is the same for all cells of a table, so small groups suffer most. Half-width of the 95 % "
        f"interval over the count, by the size of the group: {'; '.join(parts)}."
    )
    return HazardAnswer(SHOWN, said, {"sizes": release.sizes})


def _class(size: Mapping[str, Any]) -> str:
    cells = f"{size['cells']:,} cell{'s' * (size['cells'] != 1)}"
    return f"from {size['least']:,} ({cells})" if size["least"] else f"below 1 ({cells})"


def _mending(release: ReleaseRecord) -> HazardAnswer:
    population = Population.from_dict(release.record["population"])
    said = " ".join(population.sentences())
    said += " A model has no negative counts, whatever the noisy counts are"
    method = release.record.get("method")
    said += f"; synthetic rows are drawn by the method {method!r}." if method else "."
    facts = {"whole_table": population.is_whole, "merged_cells": len(population.merged), "method": method}
    facts |= _left_out(release)
    return HazardAnswer(SHOWN, said, facts)


def _bias(release: ReleaseRecord) -> HazardAnswer:
    columns = [one for one in release.accuracy.get("columns", ()) if one.get("moved") is not None]
    if not release.sizes or not columns:
        said = "No count is determined by noisy counts, so the model cannot be compared with them."
        return HazardAnswer(NOT_PROVIDED, said)
    worst = max(columns, key=lambda one: one["moved"])
    parts = "; ".join(f"{_class(each)}: {each['excess']:+z.2f}" for each in release.sizes)
    said = (
        f"Non-negativity moved most records in {worst['attributes'][0]}: {accuracy.percent(worst['moved'])}. "
        f"The model's counts minus the noisy ones, mean per cell by the size of the group: {parts}."
    )
    if release.record.get("answered_by") == "learner":
        said += " Answers are those of a trained model, whose bias is not known."
    if pull := release.record["fit"].get("regularisation"):
        said += f" The model was pulled towards independence, as by {pull['weight']:g} records."
    moved = {one["attributes"][0]: one["moved"] for one in columns}
    return HazardAnswer(SHOWN, said, {"moved": moved, "sizes": release.sizes})


def _contributions(release: ReleaseRecord) -> HazardAnswer:
    most, weight = (
        1 if release.unit is None else release.unit.max_records,
        release.record.get("max_weight", 1),
    )
    facts = {"max_records": most, "max_weight": weight, "factor": most * weight, **_left_out(release)}
    if most * weight == 1 and release.unit is None:
        return HazardAnswer(SHOWN, "Each record counts once, with weight 1: no bound was needed.", facts)
    bounds = [] if release.unit is None else [f"at most {most} records of one {release.unit.column} count"]
    bounds += [f"a weight is at most {weight}"] if release.record.get("weighted") else []
    said = (
        f"Bounds, which are public: {', '.join(bounds)}. The noise is {most * weight} times that of one "
        "record of weight 1. "
    )
    counted = " ".join(Population.from_dict(release.record["population"]).of_left_out())
    return HazardAnswer(
        SHOWN, said + (counted or "Whether anything was left out or capped is private."), facts
    )


def _left_out(release: ReleaseRecord) -> dict[str, Any]:
    """Return what was counted of what is left out, with the records of the whole table; {} if nothing was."""
    counted = release.record["population"].get("left_out")
    return {"left_out": counted, **release.record.get("whole_table", {})} if counted else {}


def _bins(release: ReleaseRecord) -> HazardAnswer:
    found, names = release.found, release.estimates.domain.attributes
    given = [name for name in names if name not in found]
    facts = {"found": list(found), "given": given}
    said = f"Taken to be public: the values and bins of {_listed(given)}. " if given else ""
    if not found:
        said += "The guarantee does not cover how they were chosen."
        return HazardAnswer(YOURS, said, facts)
    cost = release.record["discovery"]["cost"]
    paid = ", ".join(
        f"{name} {cost[name]}" for name in ("epsilon", "rho", "delta") if cost.get(name, "0") != "0"
    )
    said += f"Found by a charged mechanism: those of {_listed(found)} ({paid}, a part of the cost)."
    if left := release.record["discovery"].get("left_out"):
        said += f" Left out: {_listed(left)}."
    return HazardAnswer(PARTLY if given else SHOWN, said, facts)


def _memory(release: ReleaseRecord) -> HazardAnswer:
    values = sum(np.size(each.values) for each in release.estimates.measurements)
    source = f"{values:,} noisy values" if values else "choices that were drawn at random"
    said = f"Whatever is in this folder was computed from {source}; no record took part in the fit."
    if not release.record["secure"]:
        said += " The noise can be taken off, however, so the records' counts may be found."
    return HazardAnswer(SHOWN if release.record["secure"] else NOT_PROVIDED, said, {"noisy_values": values})


def _unstructured(release: ReleaseRecord) -> HazardAnswer:
    domain = release.estimates.domain
    return HazardAnswer(
        OUT_OF_SCOPE,
        f"The release is of {len(domain)} columns with finitely many values. Free text, sound and images are "
        "no columns.",
        {"values": {name: domain[name] for name in domain}},
    )


def _interactive(release: ReleaseRecord) -> HazardAnswer:
    if not release.ledger:
        return HazardAnswer(
            NOT_PROVIDED,
            "No ledger was charged: no cap holds over this and later uses of the table.",
            {"ledger": None},
        )
    account, charge = release.ledger["account"], release.ledger["charge"]
    return HazardAnswer(
        SHOWN,
        f"Charge {charge} of account {account} was on disk before a record was counted, under the key "
        f"{release.ledger['key']!r}. All who ask share the account's cap.",
        {name: release.ledger[name] for name in ("account", "charge", "key", "head")},
    )


def _trust(release: ReleaseRecord) -> HazardAnswer:
    readers = "anybody" if release.record["secure"] else "holder"
    said = (
        "The model of trust is central: the holder of the table and the holder's machine saw every record; "
        f"{readers if release.record['secure'] else 'nobody else'} may read this folder."
    )
    if release.record["mechanism"] == "randomized-response":
        said += " Each record answered for itself, but on that machine."
    return HazardAnswer(PARTLY, said, {"model": "central", "holder": "all", "folder": readers})


def _floats(release: ReleaseRecord) -> HazardAnswer:
    measured = release.estimates.measurements
    whole = all(np.asarray(each.values).dtype.kind == "i" for each in measured)
    values = sum(np.size(each.values) for each in measured)
    kinds = _listed(sorted({each.noise for each in measured}))
    if values:
        what = f"All {values:,} noisy values" if whole else "Noise and counts"
        bits = " of 64 bits" if whole else ""
        said = f"{what} are whole numbers{bits}, added before any floating point; noise: {kinds}."
    else:
        said = "No noise was added: choices were drawn at random, from scores in whole numbers."
    said += " Time, memory and the sizes of files may depend on the table and are not protected."
    return HazardAnswer(PARTLY, said, {"integers": whole, "values": values, "side_channels": "not protected"})


def _refusals(release: ReleaseRecord) -> HazardAnswer:
    if release.ledger:
        return HazardAnswer(
            SHOWN,
            "The run had a ledger: messages and refusals that an asker sees depend on no record, and values "
            "outside the domain were settled by the table's holder beforehand.",
            {"ledger": True},
        )
    return HazardAnswer(
        PARTLY,
        "The run had no ledger: what it refused or warned of may count rows, and is for the table's holder "
        "alone. Nothing of it is in this folder.",
        {"ledger": False},
    )


def _access(release: ReleaseRecord) -> HazardAnswer:
    names = release.record.get("files", COMMON)
    files = [
        {
            "name": name,
            "holds": FILES[name][0],
            "made_again": FILES[name][1],
            "public": release.record["secure"],
        }
        for name in names
    ]
    paid = [each["name"] for each in files if not each["made_again"]]
    said = f"Keep for as long as anybody relies on the release: {_listed(paid)}. " if paid else ""
    if again := [each["name"] for each in files if each["made_again"]]:
        said += f"What can be made again from them at no cost: {_listed(again)}. "
    public = ["records"] if report_text.total_public(release.record) else []
    left_out = Population.from_dict(release.record["population"]).left_out
    public += [each.kind for each in left_out if not each.noise]
    but = f", but for what is public: the number of {', of '.join(public)}" if public else ""
    said += (
        f"Exact counts are kept nowhere{but}. The table, a ledger with its key and a file of --holder-log "
        "are for the holder alone: encryption, copies and access are yours to arrange."
    )
    return HazardAnswer(YOURS, said, {"files": files})


def _columns(release: ReleaseRecord) -> HazardAnswer:
    names = release.estimates.domain.attributes
    asked = {name for clique in Workload(release.record["workload"]).cliques for name in clique}
    measured = {name for each in release.estimates.measurements for name in each.clique}
    needed = [name for name in names if name in asked | measured]
    spare = [name for name in names if name not in needed]
    beside = [] if release.unit is None else [release.unit.column]
    facts = {"read": [*names, *beside], "asked": [n for n in names if n in asked], "not_needed": spare}
    facts["measured"] = [name for name in names if name in measured]
    said = f"Read: {_listed(names)}"
    said += f", and {release.unit.column} to tell the units apart. " if release.unit is not None else ". "
    said += f"Not needed by what was asked or measured: {_listed(spare)}."
    if unasked := [name for name in names if name in measured - asked]:
        said += f" Measured, but in no question: {_listed(unasked)}."
    return HazardAnswer(PARTLY if spare else SHOWN, said, facts)


HAZARDS = (
    Hazard(
        1,
        "2.2",
        "A large epsilon may promise nothing",
        "what epsilon means for odds, with a warning above 10",
        "privacy.md#the-guarantee",
        "tests/release/test_inputs.py::test_words_change_with_the_size_of_epsilon",
        _promised(_large_epsilon),
    ),
    Hazard(
        2,
        "2.3",
        "Epsilon and delta together allow catastrophic failure",
        "whether delta only converts rho, and what part of it is a probability of showing a label",
        "privacy.md#how-costs-add-up",
        "tests/release/test_inputs.py::test_a_statement_says_what_the_delta_of_a_label_search_is",
        _promised(_failure),
    ),
    Hazard(
        3,
        "2.3, 2.5",
        "Converting parameters hides some of them",
        "the native parameter, and epsilon at several deltas",
        "privacy.md#how-costs-add-up",
        "tests/release/test_assurance.py::test_the_curve_is_what_opendp_says_of_rho",
        _promised(_native),
    ),
    Hazard(
        4,
        "2.4",
        "What lies outside the unit is not protected",
        "the unit, the relation, and what they leave open",
        "privacy.md#the-guarantee",
        "tests/privacy/test_unit.py::test_the_command_line_names_a_unit_and_the_release_says_it",
        _promised(_unit),
    ),
    Hazard(
        5,
        "2.4",
        "Protecting events does not protect people",
        "whether people are the unit, or that you must decide",
        "privacy-unit.md",
        "tests/audit/test_units.py::test_no_mechanism_costs_a_person_more_than_it_claims",
        _promised(_people),
    ),
    Hazard(
        6,
        "2.5",
        "Guarantees of other units and deltas do not compare",
        "the claim for programs, and with what it compares",
        "",
        "tests/release/test_inputs.py::test_costs_of_other_people_or_another_relation_do_not_add_up",
        _comparable,
    ),
    Hazard(
        7,
        "2.6",
        "Other releases of the same data",
        "the account that adds up, exact figures noted in it, an earlier release",
        "privacy.md#several-releases-the-ledger",
        "tests/cli/test_ledger.py::test_exact_figures_are_noted_and_every_later_release_names_them",
        _other_releases,
    ),
    Hazard(
        8,
        "3",
        "Implementations of one's own fail",
        "the library of the samplers, all versions",
        "privacy.md#how-noise-is-made",
        "tests/audit/test_secure_noise.py::test_noise_follows_its_distribution_and_no_other",
        _samplers,
    ),
    Hazard(
        9,
        "3.2",
        "Accuracy",
        "a verdict for every column, and what rests on the model alone",
        "accuracy.md",
        "tests/release/test_accuracy.py::test_intervals_hold_the_truth_as_often_as_they_say",
        _accuracy,
    ),
    Hazard(
        10,
        "3.3.1",
        "Small groups suffer most",
        "half-width of intervals over counts, by size of the group",
        "accuracy.md",
        "tests/release/test_assurance.py::test_groups_by_size_against_every_cell",
        _small_groups,
    ),
    Hazard(
        11,
        "3.3.2",
        "Mending looks does harm",
        "what was clipped, merged, left out or rounded, and why",
        "accuracy.md#know-whose-counts-they-are",
        "tests/release/test_population.py::test_the_command_and_its_folder_name_the_population",
        _mending,
    ),
    Hazard(
        12,
        "3.3.3",
        "Statistical bias",
        "records moved by non-negativity; the model's counts minus the noisy ones",
        "accuracy.md#terms",
        "tests/release/test_assurance.py::test_groups_by_size_against_every_cell",
        _bias,
    ),
    Hazard(
        13,
        "3.4.1",
        "Bounding contributions costs noise",
        "the public bounds, and the factor that they put on the noise",
        "privacy-unit.md#choose-the-bound",
        "tests/privacy/test_unit.py::test_noise_is_that_of_the_group_and_accounts_know_no_shifts",
        _contributions,
    ),
    Hazard(
        14,
        "3.4.1",
        "Bins and keys reveal",
        "which columns were described beforehand, which were found, at what cost",
        "discovery.md",
        "tests/discovery/test_discovery.py::test_all_that_depends_on_the_table_passes_the_choke_point",
        _bins,
    ),
    Hazard(
        15,
        "3.5, 3.6",
        "Models memorise",
        "what the model was fitted to",
        "auditing.md",
        "tests/mechanisms/test_contract.py::test_nothing_but_released_numbers_depends_on_the_table",
        _memory,
    ),
    Hazard(
        16,
        "3.7",
        "Unstructured data has no clear unit",
        "that all columns have finitely many values",
        "domain.md",
        "tests/release/test_assurance.py::test_the_evidence_is_true_of_the_release",
        _unstructured,
    ),
    Hazard(
        17,
        "4.1",
        "Interactive use",
        "the charge, its key and the cap that all who ask share",
        "privacy.md#several-releases-the-ledger",
        "tests/privacy/ledger/test_storm.py::test_eight_processes_are_granted_exactly_the_cap",
        _interactive,
    ),
    Hazard(
        18,
        "4.2",
        "Trust must hold",
        "who sees what",
        "privacy.md#against-whom-it-holds",
        "tests/crossed/test_neighbours.py::test_who_asks_a_ledger_sees_answers_only",
        _trust,
    ),
    Hazard(
        19,
        "4.3",
        "Floating point and side channels",
        "that noisy values are integers; what is not protected",
        "privacy.md#not-promised",
        "tests/release/test_release.py::test_values_are_integers_of_64_bits",
        _floats,
    ),
    Hazard(
        20,
        "4.3",
        "Refusals of the back end leak",
        "who may see messages of the run",
        "privacy.md#who-holds-the-table-and-who-asks",
        "tests/audit/test_processes.py::test_neighbours_are_told_apart_by_nothing",
        _refusals,
    ),
    Hazard(
        21,
        "4.4",
        "Security and access",
        "every file, what to keep, what is for the holder alone",
        "../SECURITY.md",
        "tests/release/test_assurance.py::test_the_evidence_is_true_of_the_release",
        _access,
    ),
    Hazard(
        22,
        "4.5",
        "Collect less",
        "columns that were read, asked, measured, not needed",
        "domain.md",
        "tests/release/test_assurance.py::test_columns_that_nobody_needed_are_named",
        _columns,
    ),
)
"""The hazards in the order of the publication, each with the test that holds its row."""
