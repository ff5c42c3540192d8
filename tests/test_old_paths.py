"""Every module of 0.1.0, and every public name by its old path, is found, and says where it is now.

Two fresh processes try it out, because what is loaded already and what has warned counts: one asks for every
old path, the other is a script of a user, and then asks for them backwards.
"""

import importlib
import json
import os
import pathlib
import pickle
import subprocess
import sys
import warnings

import pytest

import pgmjax as pj
from pgmjax._internal import moved
from pgmjax.history.session.costs import cell_costs
from pgmjax.measurements.noise import DiscreteLaplace
from tests import old_paths_everything

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "old_paths_script.py"


def process(file):
    """A plain `python FILE`, without options that change which warnings are shown."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def script():
    return process(SCRIPT)


def is_here(module):
    path = HERE.parent / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_every_module_of_0_1_0_moved_or_stayed():
    modules = (HERE / "modules_0_1_0.txt").read_text().split()
    here = {module for module in modules if is_here(module)}
    assert len(modules) == len(set(modules)) == 496
    assert {*old_paths_everything.OLD, *here} == set(modules)
    assert set(old_paths_everything.STAYED) <= here


def test_every_public_name_of_0_1_0_is_asked_for():
    assert len(old_paths_everything.NAMES) > 1_000


def test_every_renamed_name_is_found_by_its_old_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for old, new in moved.RENAMED.items():
            module, _, name = f"pgmjax.{old}".rpartition(".")
            found = getattr(importlib.import_module(module), name)
            assert not isinstance(found, type) or found.__name__ == new.rpartition(".")[2], old


def test_everything_is_found_and_nothing_is_changed_by_it():
    """Old paths load nothing, serve every name, and leave each name of today the object that it was."""
    said = json.loads(process(HERE / "old_paths_everything.py").stdout)
    assert len(said) == 7 and not {what: names for what, names in said.items() if names}


def test_everything_is_found_in_another_order(script):
    said = json.loads(script.stdout)
    assert len(said) == 7 and not {what: names for what, names in said.items() if names}


def test_a_script_is_told_once_a_name_at_its_own_line(script):
    """As Python shows it to whoever runs a script without options: file and line of the user's statement."""
    lines = enumerate(SCRIPT.read_text().splitlines(), start=1)
    wanted = [
        f"{SCRIPT}:{number}: DeprecationWarning: {line.partition('  # says ')[2]} is pgmjax."
        for number, line in lines
        if "  # says " in line
    ]
    said = [line for line in script.stderr.splitlines() if "Warning: " in line]
    assert len(said) == len(wanted) > 15
    assert not [start for start in wanted if not any(line.startswith(start) for line in said)], script.stderr


def test_what_is_pickled_now_names_the_new_path():
    import pgmjax as pj

    domain = pj.Domain({"a": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = pickle.dumps(domain)
        assert b"pgmjax.data.domain" in text and pickle.loads(text) == domain


def test_renamed_arguments_and_fields_work_and_warn():
    noise = DiscreteLaplace(2.0)
    with pytest.warns(DeprecationWarning, match="the argument 'law' is called 'distribution' now"):
        old = pj.LinearMeasurement(("a",), [1, 2], noise.stddev, noise="laplace", law=noise)
    with pytest.warns(DeprecationWarning, match=r"LinearMeasurement\.law is called 'distribution' now"):
        assert old.law is old.distribution is noise
    state = {"law" if name == "distribution" else name: value for name, value in vars(old).items()}
    unpickled = object.__new__(pj.LinearMeasurement)
    unpickled.__setstate__(state)
    assert unpickled.distribution is noise and "law" not in vars(unpickled)
    with pytest.warns(DeprecationWarning, match="the argument 'moves' is called 'sensitivities' now"):
        assert cell_costs([[1, 0], [1, 1]], [0.1, 0.2], moves=[1, 1]).tolist() == pytest.approx([0.3, 0.2])
    with pytest.raises(TypeError, match="both 'sensitivities' and its old name 'moves'"):
        cell_costs([[1, 0]], [0.1], sensitivities=[1], moves=[1])
