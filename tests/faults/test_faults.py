"""The seeded faults can still be found in the source, one place each, and leave it readable."""

import ast
import collections

from tests.faults.run import FAULTS, ROOT, place, source


def test_names_are_unique():
    counts = collections.Counter(fault.name for fault in FAULTS)
    assert not [name for name, count in counts.items() if count > 1] and len(FAULTS) == 181


def test_each_snippet_occurs_exactly_once():
    files = source.source_files(ROOT)
    places = {fault.name: source.places(files, fault.old) for fault in FAULTS}
    assert not {name: found for name, found in places.items() if len(found) != 1}


def test_each_faulted_module_still_parses():
    files = source.source_files(ROOT)
    whole = {module: ast.unparse(ast.parse(source.read(files[module]))) for module in map(place, FAULTS)}
    for fault in FAULTS:
        text = source.read(files[place(fault)])
        faulted = ast.unparse(ast.parse(text.replace(fault.old, fault.new)))
        assert faulted != whole[place(fault)], f"{fault.name} changes nothing"


def test_each_fault_has_tests_to_meet():
    packages = {source.unit(place(fault)).removeprefix("pgmjax.") for fault in FAULTS}
    loose = {path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.py")}
    files = source.source_files(ROOT)
    assert not [
        name
        for name in packages - loose
        if not any((ROOT / "tests" / name).rglob("test_*.py"))
        and not source.tests_that_import(f"pgmjax.{name}", files, ROOT)
    ]
