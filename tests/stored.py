"""One small artefact of every format that the library writes, with what reads it again."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pgmjax as pj
from pgmjax import cli
from pgmjax._internal import formats
from pgmjax.cli import perturb as cli_perturb
from pgmjax.history import History
from pgmjax.learning import predictor
from pgmjax.release import folder as release_folder
from pgmjax.release.folder import SyntheticRows
from pgmjax.release.run_folder import RunFolder

DOMAIN = pj.Domain({"a": 3, "b": 2, "c": 2})
WORKLOAD = pj.Workload([["a", "b"], ["c"]])
ROWS = 200


def table():
    rng = np.random.default_rng(0)
    return pj.Dataset.from_columns(DOMAIN, {name: rng.integers(0, DOMAIN[name], ROWS) for name in DOMAIN})


def measurements(cliques=(("a", "b"), ("b", "c"))):
    rng = np.random.default_rng(1)
    return [pj.LinearMeasurement(c, rng.uniform(0, 100, DOMAIN.shape_of(c)), 5.0) for c in cliques]


def mechanism(name, **settings):
    noise = pj.privacy.SeededBackend(0, insecure=True)
    settings = {"epsilon": 4, "relation": "replace-one", "backend": noise, **settings}
    return pj.mechanisms.names()[name](**settings)


@functools.cache
def release(name, learner=None):
    settings = {} if learner is None else {"learner": learner}
    return mechanism(name, **settings).run(table(), WORKLOAD, show_progress=False)


def save_model(folder):
    pj.Estimator(max_steps=5, progress=False).fit(DOMAIN, measurements(), total=ROWS).model.save(folder)


def save_mixture(folder):
    found = pj.estimation.fit_mixture(DOMAIN, measurements(), ROWS, components=3, max_steps=5, progress=False)
    found.model.save(folder)


def save_regions(folder):
    triangle = measurements((("a", "b"), ("b", "c"), ("a", "c")))
    pj.estimation.fit_local(DOMAIN, triangle, total=ROWS, max_steps=5, progress=False).model.save(folder)


def save_history(folder):
    History(DOMAIN, measurements()[:1], relation="replace-one", secure=False).save(folder)


def save_predictor(folder, learner="ridge"):
    release("mldp", learner).predictor.save(folder)


def save_perturbed(folder):
    response = mechanism("randomized-response")
    response.perturb(table(), ["a", "b"], row_order_is_public=True).save(folder)


def save_release(folder, name="marginals"):
    release_folder.write(release(name), folder, rows=SyntheticRows(3), show_progress=False)


def save_fit(folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    counts, domain = folder.with_name("counts.csv"), folder.with_name("domain.json")
    counts.write_text("a,value,stddev\n0,50,5\n1,70,5\n2,80,5\n")
    DOMAIN.write(domain)
    assert cli.main(["fit", str(counts), "--domain", str(domain), "--out", str(folder), "--quiet"]) == 0


def perturb(folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    records, domain = folder.with_name("table.csv"), folder.with_name("domain.json")
    records.write_text("a,b,c\n" + "0,1,1\n2,0,1\n1,1,0\n" * 20)
    DOMAIN.write(domain)
    words = [str(records), "--domain", str(domain), "--groups", "a,b", "--epsilon", "2"]
    words += ["--relation", "replace-one"]
    assert cli.main(["perturb", *words, "--insecure-seed", "0", "--quiet", "--out", str(folder)]) == 0


def begin_run(folder):
    with_key = RunFolder(folder)
    with_key.bind({"ask": 1}, table())
    with_key.close()


class Kept(NamedTuple):
    """A folder with a record in JSON.

    Attributes:
        format: of the record.
        save: writes the folder.
        record: name of the file that carries the format.
        load: reads the folder.
    """

    format: formats.Format
    save: Callable[[pathlib.Path], Any]
    record: str
    load: Callable[[pathlib.Path], Any]


def _perturbed(folder):
    """As `pgmjax query` opens a folder."""
    found = cli_perturb.read(str(folder))
    return release_folder.read(folder) if found is None else found


def _run(folder):
    again = RunFolder(folder)
    try:
        again.bind({"ask": 1}, table())
    finally:
        again.close()


FOLDERS = (
    Kept(formats.MODEL, save_model, "model.json", pj.load),
    Kept(formats.MIXTURE, save_mixture, "model.json", pj.load),
    Kept(formats.REGIONS, save_regions, "model.json", pj.load),
    Kept(formats.HISTORY, save_history, "history.json", History.load),
    Kept(formats.PREDICTOR, save_predictor, "predictor.json", predictor.read),
    Kept(formats.TABLE, save_perturbed, "perturbed.json", pj.local.load),
    Kept(formats.RELEASE, save_release, "release.json", release_folder.read),
    Kept(
        formats.ASSURANCE,
        save_release,
        "assurance.json",
        lambda folder: release_folder.read(folder).assurance(),
    ),
    Kept(
        formats.TRANSCRIPT,
        lambda folder: save_release(folder, "dual-query"),
        "transcript.json",
        lambda folder: release_folder.read(folder).transcript(),
    ),
    Kept(formats.FIT, save_fit, "fit.json", lambda place: release_folder.opened(place).model),
    Kept(formats.PERTURBED, perturb, "release.json", _perturbed),
    Kept(formats.RUN, begin_run, ".run.json", _run),
)
