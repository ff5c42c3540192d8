"""Every module of 0.1.0, and every public name by its old path, is found, and says where it is now."""

import json
import pathlib
import pickle
import subprocess
import sys
import warnings

HERE = pathlib.Path(__file__).parent
MODULES = (HERE / "modules_0_1_0.txt").read_text().split()
# names and methods by the path at which 0.1.0 showed them, without their signatures
NAMES = sorted(
    {
        line.partition("(")[0].partition(":")[0]
        for line in (HERE / "public_names_0_1_0.txt").read_text().splitlines()
    }
)


def answer_of(code):
    """What a fresh process prints last, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=HERE.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_of_0_1_0_imports_and_loads_nothing():
    """`import OLD` of a module that moved makes no module of its new place come in."""
    code = f"""
import importlib, json, sys
import pgmjax
from pgmjax._internal import moved
old = ["pgmjax." + name for name in moved.MODULES]
for name in old:
    if name.rpartition(".")[0] not in old:
        importlib.import_module(name.rpartition(".")[0])  # a package that stayed is loaded by its import
before = set(sys.modules)
failed = []
for name in old:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{{name}}: {{error!r}}")
loaded = sorted(m for m in set(sys.modules) - before if m.startswith("pgmjax") and m not in old)
rest = [m for m in {MODULES!r}
        if m.removeprefix("pgmjax.") not in moved.MODULES and not m.endswith("__main__")]
for name in rest:
    importlib.import_module(name)
print(json.dumps([failed, loaded, len(moved.MODULES), len(rest)]))
"""
    failed, loaded, moved, stayed = answer_of(code)
    assert failed == [] and loaded == []
    assert moved > 300 and stayed > 90
    assert len(MODULES) == 496


def test_every_public_name_of_0_1_0_is_found_by_its_old_path():
    """By attribute from `import pgmjax`, and by `from PACKAGE import NAME`."""
    code = f"""
import functools, importlib, json, warnings
warnings.simplefilter("ignore")
import pgmjax
failed = []
for name in {NAMES!r}:
    parts = name.split(".")[1:]
    try:
        functools.reduce(getattr, parts, pgmjax)
        if parts[0] in ("companion", "perturbed", "learners", "mixture", "regions", "workloads"):
            getattr(importlib.import_module("pgmjax." + parts[0]), parts[1])
    except Exception as error:
        failed.append(f"{{name}}: {{error!r}}")
print(json.dumps(failed))
"""
    assert len(NAMES) > 1_000
    assert answer_of(code) == []


def test_an_old_name_warns_once_and_is_the_new_object():
    code = """
import json, warnings
import pgmjax as pj
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from pgmjax.estimate import Estimator
    from pgmjax.estimate import Estimator
    from pgmjax.model import GraphicalModel
    from pgmjax.companion.channel import Channel
    from pgmjax.measurements import LinearMeasurement
    from pgmjax.workloads import union
    from pgmjax.cli.mechanisms import run
    import pgmjax.plan.junction_tree as tree
same = [Estimator is pj.Estimator, GraphicalModel is pj.GraphicalModel, Channel is pj.local.Channel,
        LinearMeasurement is pj.LinearMeasurement, union == pj.Workload.union, callable(run)]
print(json.dumps([[str(w.message) for w in said], same, sorted({w.category.__name__ for w in said})]))
"""
    said, same, kinds = answer_of(code)
    assert all(same) and kinds == ["DeprecationWarning"]
    assert len(said) == 6 and len(set(said)) == 6
    assert any("pgmjax.estimate.Estimator is pgmjax.estimation.estimator.Estimator now" in s for s in said)


def test_a_name_that_never_was_is_refused():
    code = """
import json
import pgmjax
found = []
for statement in ("from pgmjax.estimate import nothing",
                  "from pgmjax.model import nothing", "import pgmjax.nothing",
                  "pgmjax.nothing", "from pgmjax.companion import nothing", "import pgmjax.plan.nothing"):
    try:
        exec(statement)
    except (ImportError, AttributeError) as error:
        found.append(type(error).__name__)
print(json.dumps(found))
"""
    wanted = ["ImportError", "ImportError", "ModuleNotFoundError", "AttributeError"]
    assert answer_of(code) == [*wanted, "ImportError", "ModuleNotFoundError"]


def test_what_is_pickled_now_names_the_new_path():
    import pgmjax as pj

    domain = pj.Domain({"a": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = pickle.dumps(domain)
        assert b"pgmjax.data.domain" in text and pickle.loads(text) == domain
