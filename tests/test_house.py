"""House rules that a reader should not have to check by eye: sizes, rooms, prints, randomness."""

import ast
import collections
import functools
import pathlib
import tomllib

ROOT = pathlib.Path(__file__).parent.parent
PATHS = sorted([*(ROOT / "pgmjax").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])
NAMES = [str(p.relative_to(ROOT)) for p in PATHS]
RANDOM_ALLOWED = {"pgmjax/random.py", "pgmjax/privacy/seeded.py"}


@functools.cache
def trees():
    """The syntax tree of every file; parsed when a test asks, since every process collects the tests."""
    return {name: ast.parse((ROOT / name).read_text()) for name in NAMES}


@functools.cache
def lines():
    """The number of lines of every file."""
    return {name: (ROOT / name).read_text().count("\n") for name in NAMES}


def dotted(node):
    """`a.b.c` of an attribute access, or the empty string."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def module_of(name):
    """The dotted name of a file; `kernels/` is installed as `pgmjax.kernels`."""
    inside = name if name.startswith("pgmjax/") else f"pgmjax/{name}"
    return inside.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_every_package_is_installed():
    """The list in pyproject.toml is what a wheel holds; an editable install does not miss what it lacks."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {module_of(name) for name in NAMES if name.endswith("/__init__.py")}
    assert sorted(named) == sorted(found)


def test_a_file_is_a_topic_of_at_most_900_lines():
    assert not {name: lines for name, lines in lines().items() if lines > 900}


def test_rooms_are_few_and_hold_few_files():
    """At most 30 entries at the top and 25 files a folder."""
    top = {p.name for p in (ROOT / "pgmjax").iterdir()} - {"__pycache__"}
    assert len(top) <= 30, sorted(top)
    files = collections.Counter(path.parent.relative_to(ROOT) for path in PATHS)
    assert not {str(folder): count for folder, count in files.items() if count > 25}


def helpers():
    """Short modules that one other module alone imports and no package exports from, with it."""
    modules = {module_of(name): name for name in NAMES}
    importers = collections.defaultdict(set)
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                for module in {m if m in modules else node.module for m in full} & set(modules):
                    importers[module].add(name)
    for module, name in modules.items():
        (one, *more) = importers[module] or {""}
        exported = one.endswith("/__init__.py") and "__all__ = [" in (ROOT / one).read_text()
        if one and not more and not exported and lines()[name] < 150 and not name.endswith("/__init__.py"):
            yield name, one


def test_helpers_live_in_the_file_that_uses_them():
    """A module of its own is a topic: it has a public name, several importers, or 150 lines to say."""
    found = dict(helpers())
    assert len(found) <= 15, "\n".join(f"{name}, for {one} alone" for name, one in found.items())


def test_a_class_has_a_name_of_its_own():
    """No two public classes of the library are called the same."""
    homes = collections.defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_" and not name.startswith("kernels/"):
                homes[node.name].append(name)
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    assert not twice, twice


def test_functions_are_short():
    """Under 50 lines of code; the docstring is not counted."""
    long = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                length = body[-1].end_lineno - body[0].lineno + 1
                if length >= 50:
                    long.append(f"{name}:{node.lineno} {node.name} has {length} lines")
    assert not long, "\n".join(long)


def test_library_prints_nothing():
    prints = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if not name.startswith("pgmjax/cli/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "pprint")
    ]
    assert not prints


def generators(tree):
    """Lines at which a module takes a random generator, with the name it takes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        else:
            imported = set()
        for word in imported & {"random", "secrets", "jax.random", "numpy.random"}:
            yield node.lineno, word
        word = dotted(node)
        allowed = ("np.random.Generator", "jax.random.key_data")  # a type, and looking into a key
        if word.startswith(("np.random.", "numpy.random.", "jax.random.", "jr.")) and word not in allowed:
            yield node.lineno, word


def test_randomness_comes_from_one_module():
    """Only `random.py` (takes no table) and the seeded noise backend call a random generator."""
    assert set(NAMES) >= RANDOM_ALLOWED
    found = {name: list(generators(tree)) for name, tree in trees().items() if name not in RANDOM_ALLOWED}
    assert not {name: lines for name, lines in found.items() if lines}


def test_the_check_sees_a_generator_in_every_package():
    """Seeded here into one module of each: `jax.random`, however it is written."""
    for package in sorted({name.split("/")[1] for name in NAMES if name.count("/") > 1}):
        name = next(n for n in NAMES if n.startswith(f"pgmjax/{package}/") and n not in RANDOM_ALLOWED)
        for line in ("import jax.random", "from jax import random", "x = jax.random.normal(key)"):
            assert list(generators(ast.parse((ROOT / name).read_text() + "\n" + line))), (name, line)


UNCHANGED = {"pgmjax/synthesizer.py": 2}
"""Checks of what stays as it was given: arguments that scikit-learn reads back."""


def test_what_a_check_returns_is_kept():
    """A whole number may come as 1e6 and a word in another case: the check returns what it stands for."""
    dropped = collections.Counter(
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and dotted(node.value.func) in ("checks.integer", "checks.choice")
    )
    assert dropped == UNCHANGED


def test_the_seconds_of_long_tests_are_of_tests_that_are_there():
    """A test that is named anew would run all of its cases by default, without a word."""
    named = [
        line.split()[1].split("::") for line in (ROOT / "tests" / "seconds.txt").read_text().splitlines()
    ]
    texts = {file: (ROOT / file).read_text() for file, *_ in named if (ROOT / file).exists()}
    assert named and not [each for each in named if f"def {each[-1]}(" not in texts.get(each[0], "")]
