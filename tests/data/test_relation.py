"""The neighbouring relation has no default and no guesses."""

import inspect
import typing

import pytest

import pgmjax as pj
from pgmjax import Relation
from pgmjax.data.relation import AnyRelation


@pytest.mark.parametrize("value", ["add-remove", "ADD_REMOVE", "add_remove", Relation.ADD_REMOVE])
def test_names(value):
    assert Relation.parse(value) is Relation.ADD_REMOVE


@pytest.mark.parametrize("value", [None, "", "unbounded", 1, True])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="there is no default"):
        Relation.parse(value)


def test_a_relation_is_typed_by_its_names_too():
    """So that type checkers take "add-remove" and refuse a slip of the pen."""
    for takes in (pj.mechanisms.Marginals, pj.Synthesizer, pj.privacy.PrivateTable, pj.privacy.calibrate):
        taken = inspect.signature(takes).parameters["relation"].annotation
        assert taken == "AnyRelation", takes
    assert {"add-remove", "replace-one"} == set(typing.get_args(typing.get_args(AnyRelation)[1]))
    assert pj.mechanisms.Marginals(1, "add-remove").relation is pj.Relation.ADD_REMOVE
