"""The neighbouring relation has no default and no guesses."""

import pytest

from pgmjax import Relation


@pytest.mark.parametrize("value", ["add-remove", "ADD_REMOVE", "add_remove", Relation.ADD_REMOVE])
def test_names(value):
    assert Relation.parse(value) is Relation.ADD_REMOVE


@pytest.mark.parametrize("value", [None, "", "unbounded", 1, True])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="there is no default"):
        Relation.parse(value)
