"""Exact counts are read in two places only: the choke point, and evaluation that says it is not private.

Noise that protects comes from a backend, never from the simulation of a distribution.
"""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
MAY_COUNT = {"pgmjax/data/dataset.py", "pgmjax/privacy/private_table.py"}
# sweeps are research on tables that may be seen: errors are evaluation, tables are kept as codes
MAY_COUNT |= {"pgmjax/sweeps/work.py", "pgmjax/sweeps/grid.py"}
# the holder's look is of the holder's own table, and marked as not for publication
MAY_COUNT |= {"pgmjax/release/look.py"}
PUBLIC = {"domain", "layout", "weighted", "max_weight", "validate", "registered", "rows_outside", "under"}
PUBLIC |= {"unit", "of_unit", "recode", "as_old_as", "population", "reading"}
DIGESTS = {"pgmjax/release/run_folder.py": {"identity"}}  # under a key, for the owner of the folder
NAMES = sorted({str(path.relative_to(ROOT)) for path in (ROOT / "pgmjax").rglob("*.py")} - MAY_COUNT)


def is_dataset(node):
    """Whether an annotation or a call such as `Dataset.read(...)` is about a Dataset."""
    return node is not None and any(
        (isinstance(part, ast.Name) and part.id == "Dataset")
        or (isinstance(part, ast.Attribute) and part.attr == "Dataset")
        or (isinstance(part, ast.Constant) and part.value == "Dataset")
        for part in ast.walk(node.func if isinstance(node, ast.Call) else node)
    )


def tables(tree):
    """Names of variables and attributes that hold a table, anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and is_dataset(node.annotation):
            yield node.arg
        elif isinstance(node, ast.AnnAssign) and is_dataset(node.annotation):
            yield ast.unparse(node.target).split(".")[-1]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and is_dataset(node.value):
            yield from (ast.unparse(target).split(".")[-1] for target in node.targets)


def reads(source):
    """Accesses to anything of a table but what is public, as (line, attribute)."""
    tree = ast.parse(source)
    held = set(tables(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in PUBLIC:
            owner = node.value
            name = getattr(owner, "id", None) or getattr(owner, "attr", None)
            if name in held or (isinstance(owner, ast.Call) and is_dataset(owner)):
                yield node.lineno, node.attr


def test_tables_are_handed_on_and_never_read():
    found = {
        name: [read for read in reads((ROOT / name).read_text()) if read[1] not in DIGESTS.get(name, ())]
        for name in NAMES
    }
    wrong = {name: lines for name, lines in found.items() if lines}
    assert not wrong, f"a private table is read; go through privacy.private_table.PrivateTable: {wrong}"


def test_the_check_sees_a_read_in_every_package():
    """Seeded here into one module of each."""
    read = "\ndef seeded(data: Dataset): return data.records(['age'])\n"
    for package in sorted({name.split("/")[1] for name in NAMES if name.count("/") > 1}):
        name = next(name for name in NAMES if name.startswith(f"pgmjax/{package}/"))
        assert list(reads((ROOT / name).read_text() + read)), name


PROTECTED = ("privacy", "mechanisms", "local", "release")


def simulations(source):
    """Lines that reach for `simulate` of a distribution, as an attribute or by its name."""
    for node in ast.walk(ast.parse(source)):
        if "simulate" in (getattr(node, "attr", None), getattr(node, "value", None)):
            yield node.lineno


def test_noise_that_protects_is_never_simulated():
    """What is released is drawn by a backend; `NoiseDistribution.simulate` is for Monte Carlo alone."""
    names = [name for name in [*NAMES, *MAY_COUNT] if name.split("/")[1] in PROTECTED]
    assert {name.split("/")[1] for name in names} == set(PROTECTED)
    found = {name: list(simulations((ROOT / name).read_text())) for name in names}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "source",
    [
        "x = distribution.simulate(key, (3,))",
        "draw = distribution.simulate",
        "getattr(distribution, 'simulate')(key, 3)",
    ],
)
def test_the_check_sees_simulated_noise(source):
    assert list(simulations(source))


def test_what_may_count_is_there():
    assert all((ROOT / name).is_file() for name in MAY_COUNT)


@pytest.mark.parametrize(
    "source",
    [
        "def run(data: Dataset): return data.marginals([])",
        "def run(data: pj.Dataset | None): return data.count()",
        "data = Dataset.read('x', d)\nn = data.count()",
        "n = Dataset.read('x', d).count()",
        "class A:\n    data: 'Dataset'\n    def run(self): return self.data._source",
    ],
)
def test_the_check_sees_reads(source):
    assert list(reads(source))


def test_the_check_lets_public_things_pass():
    assert not list(reads("def run(data: Dataset): return PrivateTable(data, data.domain, data.max_weight)"))
