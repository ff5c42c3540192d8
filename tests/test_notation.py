"""The field's words: names in the library use none of the old ones."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
OLD = {  # and the field's word for each
    "law": "distribution",
    "laws": "distributions",
    "doubt": "error bound",
    "doubtful": "inaccurate",
    "moves": "sensitivity, or shifts of single answers",
    "covered": "estimable, spanned",
    "purse": "Run",
    "unfitted": "Measured",
    "course": "FitSteps",
    "reply": "StepResult",
    "lesson": "training set",
    "lessons": "training sets",
    "demand": "accuracy requirement",
    "achievable": "proper estimator",
    "stiffness": "penalty parameter",
}
FILES = [*(ROOT / "pgmjax").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]


@functools.cache
def tree(path):
    """The parsed source of a file."""
    return ast.parse(path.read_text())


@functools.cache
def words_of(path):
    """Each name of a file with its words."""
    return [(name, words(name)) for name in names(tree(path))]


def words(name):
    """The words of a name, CamelCase or with underscores."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(parsed):
    """Names of classes, their fields, functions and their parameters."""
    for node in ast.walk(parsed):
        if isinstance(node, ast.ClassDef):
            yield node.name
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            yield from (field.id for field in fields if isinstance(field, ast.Name))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            yield node.name
            yield from (each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))


@pytest.mark.parametrize("word", sorted(OLD))
def test_an_old_word_is_in_no_name(word):
    """OLD says what stands for it."""
    modules = [path.name for path in FILES if word in words(path.stem)]
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for name, its_words in words_of(path)
        if word in its_words
    ]
    assert not modules and not found


def test_no_docstring_begins_with_a_riddle():
    """First lines are noun phrases or imperatives: no clause that describes a thing by a question."""
    riddle = re.compile(r"(What|Which|Whether|How|Where|Who|When|As|So)\b")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, kinds) and riddle.match(text := ast.get_docstring(node) or "")
    ]
    assert not found
