"""The chance that a run of all tests is red although nothing is wrong: stated by each module, summed here.

Most tests are seeded or exact. Those of the secure noise draw fresh entropy in every run.
"""

import importlib.util
import pathlib

TESTS = pathlib.Path(__file__).parent.parent
MOST = 3e-6


def levels():
    """FALSE_ALARMS of every test module that states one."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if "\nFALSE_ALARMS" not in path.read_text():
            continue
        spec = importlib.util.spec_from_file_location(f"levels_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[str(path.relative_to(TESTS))] = module.FALSE_ALARMS
    return found


def test_false_alarms_are_rare():
    stated = levels()
    own = {"audit/test_secure_noise.py", "audit/test_detectors.py", "privacy/test_backends.py"}
    assert own <= set(stated)
    assert all(level >= 0 for level in stated.values())
    assert 0 < sum(stated.values()) <= MOST, stated
