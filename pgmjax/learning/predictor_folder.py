"""A trained model on disk: settings as JSON, numbers as NumPy arrays, never pickle."""

from __future__ import annotations

import json
import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from pgmjax._internal import files
from pgmjax.data.domain import Domain
from pgmjax.learning import Learner, as_learner
from pgmjax.learning.base import FittedLearner
from pgmjax.learning.encodings import ENCODINGS, Encoding, as_encoding
from pgmjax.learning.predictor import Part, Predictor, weights_of
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Law

FORMAT = "pgmjax-predictor"
FORMAT_VERSION = 1
_LAWS: dict[str, type[Law]] = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}
_LEARNED = "learned."
_TAUGHT = ("encodings", "answers", "stddevs", "scales")


def check_writable(learner: Learner, encoding: Encoding) -> None:
    """Refuse what could not be read back.

    Raises:
        ValueError: the learner's settings cannot be written down, or the encoding is none of this library.
    """
    learner.to_dict()
    if ENCODINGS.get(encoding.name) is not type(encoding):
        raise ValueError(
            f"the encoding {encoding.name!r} is not one of {', '.join(ENCODINGS)}: a predictor with it "
            "cannot be saved, since it could not be read back."
        )


def write(predictor: Predictor, folder: str | os.PathLike[str], *, seed: int = 0) -> None:
    """Write a predictor into a folder, which is made if need be.

    Args:
        predictor: the trained model.
        folder: it gets `predictor.json` and a `part-N.npz` for each learner.
        seed: that the learners were given, for those that keep no arrays and learn again when read.

    Raises:
        ValueError: settings that cannot be written down; nothing is written.
    """
    for part in predictor.parts:
        check_writable(part.fitted.learner, predictor.encoding)
    where = pathlib.Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    described = []
    for number, part in enumerate(predictor.parts):
        learned = part.fitted.arrays()
        arrays = {f"{_LEARNED}{name}": array for name, array in (learned or {}).items()}
        taught = {name: getattr(part, name) for name in _TAUGHT}
        np.savez_compressed(where / f"part-{number}.npz", **taught, **arrays)  # type: ignore[arg-type]
        described.append(
            {
                "clique": list(part.clique),
                "learner": part.fitted.learner.to_dict(),
                "learned": learned is not None,
                "law": None if part.law is None else {"noise": part.law.noise, "scale": part.law.scale},
            }
        )
    record = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "domain": predictor.domain.to_dict(),
        "encoding": predictor.encoding.name,
        "seed": seed,
        "parts": described,
    }
    (where / "predictor.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read(folder: str | os.PathLike[str]) -> Predictor:
    """Read a predictor; learners that keep no arrays learn again from the stored answers, which is free.

    Raises:
        ValueError: there is none, or it is damaged or of another version.
    """
    where = pathlib.Path(folder)
    path = where / "predictor.json"
    if not path.is_file():
        raise ValueError(f"there is no predictor in {os.fspath(folder)}: expected predictor.json in it.")
    record = files.read(path, "a predictor of pgmjax", FORMAT, FORMAT_VERSION)
    try:
        parts = [
            _part(where / f"part-{number}.npz", about, record["seed"])
            for number, about in enumerate(record["parts"])
        ]
        return Predictor(Domain(record["domain"]), as_encoding(record["encoding"]), tuple(parts))
    except (KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}. Make or copy it again.") from error


def _part(path: pathlib.Path, about: dict[str, Any], seed: int) -> Part:
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    learner = as_learner(about["learner"])
    encodings, answers, stddevs, scales = (arrays.pop(name) for name in _TAUGHT)
    fitted: FittedLearner
    if about["learned"]:
        learned = {name.removeprefix(_LEARNED): array for name, array in arrays.items()}
        fitted = learner.restore(learned, encodings.shape[1])
    else:
        fitted = learner.fit(encodings, answers, weights=weights_of(stddevs), seed=seed)
    law: Law | None = None
    if about["law"] is not None:
        law = _LAWS[about["law"]["noise"]](about["law"]["scale"])
    return Part(tuple(about["clique"]), encodings, answers, stddevs, scales, fitted, law)
