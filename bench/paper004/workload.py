"""Workloads of McKenna et al. 2019: Adult's fifteen triples as printed, and a generator for other tables."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable

import numpy as np

import pgmjax as pj

ADULT = [
    ("occupation", "race", "capital-loss"),
    ("occupation", "sex", "native-country"),
    ("marital-status", "relationship", "income>50K"),
    ("age", "education-num", "sex"),
    ("workclass", "education-num", "occupation"),
    ("marital-status", "occupation", "income>50K"),
    ("race", "native-country", "income>50K"),
    ("occupation", "capital-gain", "income>50K"),
    ("marital-status", "hours-per-week", "income>50K"),
    ("workclass", "race", "capital-gain"),
    ("marital-status", "relationship", "capital-gain"),
    ("workclass", "education-num", "capital-gain"),
    ("education-num", "relationship", "race"),
    ("fnlwgt", "hours-per-week", "income>50K"),
    ("workclass", "sex", "native-country"),
]
ADULT_WIDE = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
TABLES = ("titanic", "adult", "loans", "stroke")


def load(name: str) -> tuple[pj.Domain, pj.Dataset]:
    """Return one of the four tables from the folder that PGMJAX_DATA names."""
    where = os.environ.get("PGMJAX_DATA")
    if not where:
        raise SystemExit("PGMJAX_DATA is not set: it names the folder of the tables.")
    folder = pathlib.Path(where) / name
    domain = pj.Domain.read(folder / f"{name}-domain.json")
    return domain, pj.Dataset.read(folder / f"{name}.csv.gz", domain)


def workload(name: str, domain: pj.Domain, max_queries: int = 20_000) -> pj.Workload:
    """Return the paper's workload of Adult (62,876 queries), or fifteen random triples of another table."""
    if name == "adult":
        return pj.Workload.of_blocks(ADULT, dict.fromkeys(ADULT_WIDE, "prefix"))
    return pj.Workload.random(domain, 15, k=3, max_queries=max_queries, seed=0)


def exact_answers(workload: pj.Workload, data: pj.Dataset) -> list[np.ndarray]:
    """Return the true answers to every entry, for evaluation only."""
    tables = dict(zip(workload.cliques, data.marginals(workload.cliques), strict=True))
    return [np.ravel(entry.query.apply(tables[entry.clique])).astype(float) for entry in workload.entries]


def relative(exact: list[np.ndarray], answers: Iterable[np.ndarray]) -> float:
    """Return the mean over entries of the L1 distance relative to the L1 norm of the true answers.

    The paper prints half of this.
    """
    pairs = zip(exact, answers, strict=True)
    return float(np.mean([np.abs(true - np.ravel(ours)).sum() / np.abs(true).sum() for true, ours in pairs]))


def error(workload: pj.Workload, exact: list[np.ndarray], model: pj.GraphicalModel) -> float:
    """Return the error, see `relative`, of a model's answers to a workload."""
    return relative(exact, (model.answer(entry.query) for entry in workload.entries))
