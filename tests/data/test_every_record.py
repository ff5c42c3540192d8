"""Messy files that other programs write: every record counts, as the rows that were written say."""

import csv
import gzip
import io
import unicodedata

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgmjax.data import files
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.unit import Unit

VALUES = ["x", "a b", "v,w", "l\nm", "r\r\ns", 'q"u', "0;1", "1,5", "\u00e9", ""]
LABELS = [value for value in VALUES if value.isprintable() and value]
DOMAIN = {"labels": LABELS, "other": True, "missing": True}
ASKED = ["v", "Age of the person", "h\n(x)", 'in "quotes"', "e\u0301t\u00e9", "m;n,o"]
OTHERS = ["", "", "row", "twice", "twice", "of", "the", "5\" pipe", "v w"]


def counts(path, names, **options):
    data = Dataset.read(path, Domain(dict.fromkeys(names, DOMAIN)), **options)
    return [marginal.tolist() for marginal in data.marginals([(name,) for name in names])]


def true_counts(rows, places):
    """Of each label, of values with a line break, and of no value."""
    columns = [[row[place] for row in rows] for place in places]
    return [[*map(c.count, LABELS), sum("\n" in value for value in c), c.count("")] for c in columns]


@st.composite
def tables(draw):
    """A header, the names that are asked for, and records."""
    asked = draw(st.lists(st.sampled_from(ASKED), min_size=1, max_size=3, unique=True))
    header = draw(st.permutations(asked + draw(st.lists(st.sampled_from(OTHERS), max_size=3))))
    row = st.tuples(*[st.sampled_from(VALUES)] * len(header))
    return header, asked, draw(st.lists(row, min_size=1, max_size=6))


@st.composite
def layouts(draw):
    """How a program writes a text file: what of it is independent of the table."""
    return {
        "delimiter": draw(st.sampled_from(",;\t|")),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "ends": draw(st.lists(st.sampled_from(["\n", "\r\n", "\r", "\r\r\n"]), min_size=1, max_size=3)),
        "last": draw(st.booleans()),
        "above": draw(st.sampled_from(["", "", "\n\n", "sep", "Table 1\n", "# made by R\n\n", "One title\nTwo\n"])),
        "below": draw(st.sampled_from(["", "\n", "\n\n\n"])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le"])),
        "packed": draw(st.booleans()),
    }


def text_of(header, rows, how):
    """The text of a file: as csv writes each line, with the line ends in turn."""
    lines = []
    for row in [header, *rows]:
        line = io.StringIO()
        csv.writer(line, delimiter=how["delimiter"], quoting=how["quoting"]).writerow(row)
        lines.append(line.getvalue().removesuffix("\r\n"))
    ends = [how["ends"][k % len(how["ends"])] for k in range(len(lines))]
    ends[-1] = ends[-1] if how["last"] else ""
    above = f"sep={how['delimiter']}{ends[0] or how['ends'][0]}" if how["above"] == "sep" else how["above"]
    below = how["below"] if len(header) > 1 and how["last"] else ""
    return above + "".join(line + end for line, end in zip(lines, ends, strict=True)) + below


@settings(max_examples=150, deadline=None)
@given(tables(), layouts())
def test_text_in_any_layout(tmp_path_factory, table, how):
    (header, asked, rows), folder = table, tmp_path_factory.mktemp("t")
    assume(len(header) > 1 or how["above"] in ("", "sep", "\n\n"))  # a title of one column is as its header
    raw = text_of(header, rows, how).encode(how["encoding"])
    assume(how["encoding"] != "utf-16-le" or how["above"] == "")  # without a mark, one line is looked at
    path = folder / ("t.csv.gz" if how["packed"] else "t.csv")
    path.write_bytes(gzip.compress(raw) if how["packed"] else raw)
    given_encoding = "utf-16-le" if how["encoding"] == "utf-16-le" else None
    composed = [unicodedata.normalize("NFC", name).replace("\n", " ") for name in asked]
    expected = true_counts(rows, [header.index(name) for name in asked])
    assert counts(path, composed, encoding=given_encoding) == expected
