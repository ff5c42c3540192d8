"""Asks for every old path in a fresh process, and prints as JSON what fails; `test_old_paths.py` runs it.

It imports them in the order of the table; the script beside it reaches them as attributes, backwards.
"""

import functools
import importlib
import json
import pathlib
import sys
import warnings

import pgmjax
from pgmjax._internal import moved

HERE = pathlib.Path(__file__).parent
OLD = ["pgmjax." + name for name in moved.MODULES]
STAYED = sorted(set((HERE / "modules_0_1_0.txt").read_text().split()) - {*OLD, "pgmjax.__main__"})
# names and methods by the path at which 0.1.0 showed them, without their signatures
NAMES = {
    line.partition("(")[0].partition(":")[0]
    for line in (HERE / "public_names_0_1_0.txt").read_text().splitlines()
}


def failing(call, names):
    """What a call says of each name for which it fails."""
    failed = []
    for name in names:
        try:
            call(name)
        except Exception as error:
            failed.append(f"{name}: {error!r}")
    return failed


def by_attribute(name):
    functools.reduce(getattr, name.split(".")[1:], pgmjax)


def by_statement(name):
    package, _, last = name.rpartition(".")
    exec(f"import {name}; {name}; from {package} import {last}")


def by_star(name):
    given = {}
    exec(f"from {name} import *", given)
    names = set(sys.modules[name].__all__)
    assert names <= set(given) and (names or name == "pgmjax.plan"), sorted(given)


def names_now():
    """Every name of every module of pgmjax that is loaded, with its object."""
    modules = [(m, module) for m, module in sys.modules.items() if m.partition(".")[0] == "pgmjax"]
    return {f"{m}.{name}": value for m, module in modules for name, value in vars(module).items()}


def main(modules, reach):
    """Print what failed when the modules were first reached by a function, and then in other ways."""
    for package in {name.rpartition(".")[0] for name in OLD} - set(OLD):
        importlib.import_module(package)  # those that stayed are loaded by the import of what they had
    loaded, before = set(sys.modules), names_now()
    said = {"modules that moved": failing(reach, modules)}
    others = {m for m in set(sys.modules) - loaded if m.partition(".")[0] == "pgmjax"} - set(OLD)
    said["modules that were loaded with them"] = sorted(others)
    said["modules that stayed"] = failing(importlib.import_module, STAYED)
    said["public names"] = failing(by_attribute, NAMES)
    said["statements"] = failing(by_statement, modules)
    said["stars"] = failing(by_star, modules)
    after = names_now()
    said["names that are something else now"] = [n for n, value in before.items() if after[n] is not value]
    print(json.dumps(said))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(OLD, importlib.import_module)
