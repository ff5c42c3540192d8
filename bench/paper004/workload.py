"""Workloads of McKenna et al. 2019: fifteen triples, with prefixes on attributes that are amounts.

Adult's triples are the paper's. It does not print those of the other tables, so they are drawn by its rule:
at random among all with at most as many queries as the table has records.
"""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

import pgmjax as pj
from pgmjax import random

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
NUMERIC = {
    "adult": ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week"),
    "titanic": ("Age", "Fare"),
    "loans": (
        *("loan_amnt", "funded_amnt", "funded_amnt_inv", "int_rate", "installment", "annual_inc", "dti"),
        *("mths_since_last_delinq", "mths_since_last_record", "open_acc", "revol_bal", "revol_util"),
        *("total_acc", "total_pymnt", "total_pymnt_inv", "total_rec_prncp", "total_rec_int"),
        *("total_rec_late_fee", "recoveries", "collection_recovery_fee", "last_pymnt_amnt"),
        *("delinq_amnt", "settlement_amount", "settlement_percentage"),
    ),
    "stroke": (
        *("AGE", "RDELAY", "RSBP", "HOURLOCAL", "MINLOCAL", "DALIVED", "DDEADD", "DMAJNCHD", "DPED"),
        *("DRSHD", "DRSISCD", "DRSUNKD", "DSIDED", "FDEADD", "FLASTD", "ONDRUG", "TD"),
        *("EXPD14", "EXPD6", "EXPDD"),
    ),
}
"""Attributes that are amounts, ages, times or probabilities in about fifty values or more."""
TABLES = ("titanic", "adult", "loans", "stroke")


def load(name: str) -> tuple[pj.Domain, pj.Dataset]:
    """Return one of the four tables from the folder that PGMJAX_DATA names."""
    where = os.environ.get("PGMJAX_DATA")
    if not where:
        raise SystemExit("PGMJAX_DATA is not set: it names the folder of the tables.")
    folder = pathlib.Path(where) / name
    domain = pj.Domain.read(folder / f"{name}-domain.json")
    return domain, pj.Dataset.read(folder / f"{name}.csv.gz", domain)


def workload(name: str, domain: pj.Domain, most: int | None = None, seed: int = 0) -> pj.Workload:
    """Return a table's workload: 62,876 queries on Adult.

    Args:
        name: of the table.
        domain: its attributes.
        most: the most queries of a triple, the number of records; Adult's are printed.
        seed: of the draw of triples.
    """
    numeric = dict.fromkeys(NUMERIC[name], "prefix")
    if name == "adult":
        return pj.Workload.of_blocks(ADULT, numeric)
    return random_triples(domain, numeric, most, seed=seed)


def random_triples(
    domain: pj.Domain, blocks: Mapping[str, str], most: int | None, number: int = 15, seed: int = 0
) -> pj.Workload:
    """Return distinct random triples with blocks, of at most so many queries each; no data are used."""
    triples = list(itertools.combinations(domain.attributes, 3))
    asked = [{name: blocks[name] for name in triple if name in blocks} for triple in triples]
    sizes = [
        pj.Workload([{"clique": triple, "queries": used}]).num_queries(domain)
        for triple, used in zip(triples, asked, strict=True)
    ]
    able = [place for place, size in enumerate(sizes) if most is None or size <= most]
    chosen = sorted(random.generator(seed).choice(len(able), size=number, replace=False))
    return pj.Workload([{"clique": triples[able[k]], "queries": asked[able[k]]} for k in chosen])


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
