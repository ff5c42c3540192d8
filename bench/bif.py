"""Bayesian networks from the files of the bnlearn repository (.bif, .bif.gz), as potentials."""

from __future__ import annotations

import gzip
import pathlib
import re
from typing import Any

import numpy as np

import pgmjax as pj

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{([^}]*)\}")
TABLE = re.compile(r"probability\s*\(\s*([^)|]+?)\s*(?:\|\s*([^)]*?)\s*)?\)\s*\{(.*?)\n\}", re.DOTALL)
ROW = re.compile(r"\(([^)]*)\)\s*([^;]*);")


def text_of(path: pathlib.Path) -> str:
    """The text of a file, packed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def read(text: str) -> tuple[dict[str, list[str]], dict[tuple[str, ...], np.ndarray]]:
    """Read a network.

    Returns:
        The labels of each variable; for each family (child, parents in the file's order) the probabilities
        [size of the child, sizes of its parents], each column divided by its sum, which rounding in the file
        leaves a little off 1.
    """
    labels = {}
    for name, count, inside in VARIABLE.findall(text):
        labels[name] = [word.strip() for word in inside.split(",")]
        if len(labels[name]) != int(count):
            raise ValueError(f"{name} has {len(labels[name])} labels and says {count}.")
    families = {}
    for child, parents, body in TABLE.findall(text):
        family = (child, *(word.strip() for word in parents.split(",") if word.strip()))
        families[family] = _table(family, labels, body)
    if {family[0] for family in families} != set(labels):
        raise ValueError("not every variable has one table.")
    return labels, families


def _table(family: tuple[str, ...], labels: dict[str, list[str]], body: str) -> np.ndarray:
    child, *parents = family
    table = np.full([len(labels[name]) for name in family], np.nan)
    if not parents:
        table[:] = _numbers(body.split("table", 1)[1].split(";")[0])
    codes = {name: {label: i for i, label in enumerate(labels[name])} for name in parents}
    for condition, values in ROW.findall(body) if parents else ():
        words = (word.strip() for word in condition.split(","))
        cell = tuple(codes[name][word] for name, word in zip(parents, words, strict=True))
        table[(slice(None), *cell)] = _numbers(values)
    if np.isnan(table).any():
        raise ValueError(f"the table of {child} is not whole.")
    return table / table.sum(axis=0, keepdims=True)


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def model(labels: dict[str, list[str]], families: dict[tuple[str, ...], np.ndarray]) -> Any:
    """The network as a model over codes, total 1: its log-partition is 0 up to rounding."""
    domain = pj.Domain({name: len(words) for name, words in labels.items()})
    with np.errstate(divide="ignore"):
        return pj.GraphicalModel.from_potentials(domain, {f: np.log(table) for f, table in families.items()})
