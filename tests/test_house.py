"""House rules that a reader should not have to check by eye: sizes, prints, randomness."""

import ast
import pathlib
import statistics
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PATHS = sorted([*(ROOT / "pgmjax").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])
NAMES = [str(p.relative_to(ROOT)) for p in PATHS]
RANDOM_ALLOWED = {"pgmjax/random.py", "pgmjax/privacy/seeded.py"}


def tree_of(name):
    return ast.parse((ROOT / name).read_text())


def dotted(node):
    """`a.b.c` of an attribute access, or the empty string."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def test_every_package_is_installed():
    """The list in pyproject.toml is what a wheel holds; an editable install does not miss what it lacks."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {path.parent.relative_to(ROOT) for path in PATHS if path.name == "__init__.py"}
    there = {".".join(folder.parts) for folder in found}
    assert sorted(named) == sorted({"pgmjax.kernels" if name == "kernels" else name for name in there})


def test_modules_are_small():
    lines = {name: (ROOT / name).read_text().count("\n") for name in NAMES}
    long = {name: n for name, n in lines.items() if n > 400}
    assert not long, f"one idea a file: {long}"
    real = [n for name, n in lines.items() if not name.endswith("__init__.py")]
    assert statistics.median(real) < 180


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_short(name):
    """Under 50 lines of code; the docstring is not counted."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            length = body[-1].end_lineno - body[0].lineno + 1
            assert length < 50, f"{name}:{node.lineno} {node.name} has {length} lines"


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("pgmjax/cli/")])
def test_library_prints_nothing(name):
    calls = [n for n in ast.walk(tree_of(name)) if isinstance(n, ast.Call) and dotted(n.func) == ""]
    assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in ("print", "pprint")]


@pytest.mark.parametrize("name", [n for n in NAMES if n not in RANDOM_ALLOWED])
def test_randomness_comes_from_one_module(name):
    """Only `random.py` (takes no table) and the seeded noise backend call a random generator."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            imported = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        else:
            imported = set()
        assert not imported & {"random", "secrets", "jax.random", "numpy.random"}, f"{name}:{node.lineno}"
        word = dotted(node)
        if word.startswith(("np.random.", "numpy.random.", "jax.random.", "jr.")):
            allowed = ("np.random.Generator", "jax.random.key_data")  # a type, and looking into a key
            assert word in allowed, f"{name}:{node.lineno} uses {word}"


def test_what_slow_txt_names_is_there():
    tests = pathlib.Path(__file__).parent
    lines = (tests / "slow.txt").read_text().splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert names == sorted(set(names))
    for name in names:
        file, _, function = name.partition("[")[0].partition("::")
        text = (tests.parent / file).read_text()
        assert f"def {function}" in text, f"{name} is no test"
