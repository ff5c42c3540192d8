"""What is known of an artefact, as plain JSON; by public names alone, but for `content`."""

import contextlib
import dataclasses
import enum
import io
import json
import math
import sqlite3
import types
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pyarrow.parquet

from pgmjax._internal import moved
from tests.guards.cases import CLIQUES

TOLERANCE = 1e-12
TODAYS_WORDS = {"law": "distribution", "laws": "distributions"}
NUMBERS = ("application_id", "user_version")
PLAIN = str | int | float | None
CHOICES = ("format", "mechanism", "relation", "status", "answered_by", "noise", "encoding", "name", "kind")
"""Names under which JSON holds one of a few words."""
CALLS = ("to_dict", "to_spec", "to_list", "answers", "log_partition", "entropy", "statement")
"""Public methods without arguments whose results are kept beside the fields of a pickled object."""


OLD_CLASSES = {
    new: old.rpartition(".")[2]
    for old, new in moved.RENAMED.items()
    if new != "Channel"  # was one beside a Factor: `in_todays_words` has it
}
"""What classes were called in 0.1.0, by their names of today."""


def _called(thing):
    """The class of a thing, as 0.1.0 called it."""
    return OLD_CLASSES.get(type(thing).__qualname__, type(thing).__qualname__)


def of_model(model, cliques=CLIQUES):
    return {
        "type": type(model).__name__,
        "domain": model.domain.to_dict() if hasattr(model, "domain") else None,
        "total": model.total,
        "marginals": {",".join(clique): model.marginal(clique).ravel().tolist() for clique in cliques},
    }


def of_saved_release(saved):
    """A release's folder: every number as it lies there, and what its parts answer."""
    transcript = saved.transcript()
    found = {
        "record": json_of(saved.folder / "release.json"),
        "measurements": saved.measurements().to_pydict(),
        "answers": saved.answers().to_pydict(),
        "synthetic": pyarrow.parquet.read_table(saved.folder / "synthetic.parquet").to_pydict(),
        "model": of_model(saved.model),
        "transcript": None if transcript is None else transcript.to_dict(),
    }
    if (saved.folder / "predictor").is_dir():
        found["predictor"] = of_predictor(saved.predictor())
    return found


def of_predictor(predictor):
    # every cell of the first pair, which all of the predictors here learned
    return {
        "domain": predictor.domain.to_dict(),
        "cliques": [list(part.clique) for part in predictor.parts],
        "learners": [content(part.fitted.learner.to_dict()) for part in predictor.parts],
        "predicted": [predicted.tolist() for predicted in predictor.predict([["a", "b"], ["b"]])],
    }


def of_ledger(ledger):
    """All that the books say, which is public."""
    return {
        "head": ledger.head(),
        "rows": ledger.verify().rows,
        "accounts": [_as_before(account.to_dict()) for account in ledger.accounts()],
        "charges": {
            account.name: [charge.to_dict() for charge in ledger.charges(account.name)]
            for account in ledger.accounts()
        },
        "stored": {
            f"{account.name} {charge.key}": [
                [step, payload.hex()] for step, payload in ledger.charge(account.name, charge.key).stored()
            ]
            for account in ledger.accounts()
            for charge in ledger.charges(account.name)
        },
    }


def of_session(session):
    return {
        "cap": str(session.cap),
        "cost": str(session.cost),
        "relation": session.relation.value,
        "seed": session.seed,
        "secure": session.secure,
        "domain": session.domain.to_dict(),
        "answers": [answer.to_dict() for answer in session.answers()],
    }


def of_history(history):
    return {
        "domain": history.domain.to_dict(),
        "relation": None if history.relation is None else history.relation.value,
        "secure": history.secure,
        "queries": [content(query) for query in history.queries],
        "values": [measurement.values.tolist() for measurement in history.measurements],
        "stddevs": [measurement.row_stddevs().tolist() for measurement in history.measurements],
        "laws": [content(distribution) for distribution in history.distributions],
        "covariance": history.full_covariance().tolist(),
    }


def of_perturbed(table):
    return {
        "domain": table.domain.to_dict(),
        "rows": table.rows,
        "epsilon": str(table.epsilon),
        "secure": table.secure,
        "seed": table.seed,
        "columns": [content(column.to_dict()) for column in table.columns],
        "answers": [np.asarray(column.answers).tolist() for column in table.columns],
        "estimate": table.marginal(("a", "b")).estimate().tolist(),
    }


def json_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


def without_versions(record):
    """A record less what names the versions that wrote it."""
    return {key: value for key, value in record.items() if key not in ("versions", "pgmjax")}


def content(thing, above=()):
    """An object as plain JSON: its class's name in 0.1.0, wherever that is defined, and all of its fields."""
    if thing is None or (isinstance(thing, bool | str) and not isinstance(thing, enum.Enum)):
        return thing
    if isinstance(thing, enum.Enum):
        return {"enum": type(thing).__qualname__, "name": thing.name, "value": thing.value}
    if isinstance(thing, int):
        return int(thing)
    if isinstance(thing, float):
        return float(thing) if math.isfinite(thing) else {"float": str(float(thing))}
    if isinstance(thing, Fraction):
        return {"Fraction": str(thing)}
    if isinstance(thing, bytes):
        return {"bytes": thing.hex()}
    if isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return {"named": thing.__qualname__}
    if id(thing) in above:
        return {"again": _called(thing)}
    return _compound(thing, (*above, id(thing)))


def _compound(thing, above):
    if isinstance(thing, Mapping):
        return {"items": [[content(key, above), content(value, above)] for key, value in thing.items()]}
    if isinstance(thing, set | frozenset):
        return {"set": sorted((content(each, above) for each in thing), key=json.dumps)}
    if isinstance(thing, list | tuple) and type(thing) in (list, tuple):
        return [content(each, above) for each in thing]
    if hasattr(thing, "__array__"):
        array = np.asarray(thing)
        return {
            "array": array.dtype.str,
            "shape": list(array.shape),
            "values": content(array.ravel().tolist()),
        }
    return {"type": _called(thing), "fields": _fields(thing, above)}


def _fields(thing, above):
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
    else:
        slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
        names = sorted({*vars(thing)} if hasattr(thing, "__dict__") else {*slots})
    return {name: content(getattr(thing, name, None), above) for name in names}


def of_object(thing):
    """A pickled object: its content, and what its public methods without arguments say of it."""
    told = {}
    for name in CALLS:
        try:
            told[name] = content(_as_before(getattr(thing, name)()))
        except (AttributeError, TypeError, ValueError):
            continue  # no such method, one that takes more, or one that has no answer here
    return {"content": content(thing), "says": told}


def _as_before(told):
    """A record without what accounts say since 0.1.0, and said nothing of then."""
    if not isinstance(told, dict) or "max_attempts" not in told:
        return told
    assert (told["definition"], told["unit"], told["versions"]) == (None, "", [])
    return {name: value for name, value in told.items() if name not in ("definition", "unit", "versions")}


def in_todays_words(told):
    """What 0.1.0 said, with a `perturbed.Factor` told as the `local.Channel` that it is now.

    The tables of a calibrated tree are products of what else it holds, and no longer stored.
    """
    if isinstance(told, list):
        return [in_todays_words(each) for each in told]
    if not isinstance(told, dict):
        return told
    if told.get("type") == "Factor" and "matching" in told["fields"]:
        old = told["fields"]
        truth, other = old["matching"], old["other"]
        bits = [old["matching_square"] - truth**2, old["other_square"] - other**2]
        kept = {name: old[name] for name in ("size", "other", "attributes")}
        new = {"truth": truth, "gap": truth - other, "bit_variances": None if old["exclusive"] else bits}
        return {"type": "Channel", "fields": kept | new}
    if told.keys() >= {"tables", "given", "tree"}:  # of a calibrated tree
        told = {name: each for name, each in told.items() if name != "tables"}
    if told.keys() >= {"type", "fields"}:
        fields = {TODAYS_WORDS.get(name, name): each for name, each in told["fields"].items()}
        told = {**told, "type": TODAYS_WORDS.get(told["type"], told["type"]), "fields": fields}
    return {name: in_todays_words(each) for name, each in told.items()}


def differences(expected, found, at=""):
    """Where found things are not as expected; fields that are new in an object are none."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lacking = [f"{at}.{key} is missing" for key in expected if key not in found]
        shared = [key for key in expected if key in found]
        return lacking + [
            told for key in shared for told in differences(expected[key], found[key], f"{at}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            return [f"{at}: {len(found)} entries, expected {len(expected)}"]
        pairs = enumerate(zip(expected, found, strict=True))
        return [told for k, (one, two) in pairs for told in differences(one, two, f"{at}[{k}]")]
    if _same(expected, found):
        return []
    return [f"{at}: {found!r}, expected {expected!r}"]


def _same(expected, found):
    if isinstance(expected, float) and isinstance(found, float):
        both = math.isnan(expected) and math.isnan(found)
        return both or math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE * 100)
    return type(expected) is type(found) and expected == found


def exact_differences(expected, found):
    """Where what JSON would hold of two things is not the same to the bit."""
    one, two = (json.dumps(each, sort_keys=True) for each in (expected, found))
    if one == two:
        return []
    return differences(json.loads(one), json.loads(two)) or ["the last digits differ, or a field is new"]


def columns_of(path):
    """The tables of a database of SQLite with their columns, triggers and format."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        numbers = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in NUMBERS]
        return {"schema": sorted(map(list, names.fetchall())), "numbers": numbers}


def hashes_of(path):
    """The digests of what was asked, of each charge and of each answer."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        charges = connection.execute("SELECT account, key, request_hash, events FROM charge ORDER BY id")
        answers = connection.execute("SELECT charge, step, request_hash FROM answer ORDER BY charge, step")
        return {"charges": list(map(list, charges)), "answers": list(map(list, answers))}


def rows_of_sweep(results):
    """All rows of a sweep, with dates as text."""
    return [
        {name: value if isinstance(value, PLAIN) else str(value) for name, value in row.items()}
        for row in results.rows()
    ]


def words_of(record, at=""):
    """The names in a JSON record by their place, and the text of those that stand for a choice."""
    if isinstance(record, dict):
        found = {}
        for key, value in record.items():
            found |= words_of(value, f"{at}.{key}")
        return found | {at or ".": sorted(record)}
    if isinstance(record, list):
        found = {}
        for k, value in enumerate(record):
            found |= words_of(value, f"{at}[{k}]")
        return found
    chosen = at.rpartition(".")[2] in CHOICES and isinstance(record, str)
    return {at: record} if chosen else {}


def array_of(payload):
    """An answer that a mechanism's run has stored in a ledger: a NumPy array."""
    return np.load(io.BytesIO(payload), allow_pickle=False)
