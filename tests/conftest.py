"""Fixtures shared by all tests."""

import atexit
import gc
import os
import pathlib
import shutil
import signal
import tempfile

import hypothesis
import pytest

from tests import program_cache, thinned

if "PYTEST_XDIST_WORKER" in os.environ:
    # threads of linear algebra in several processes wait for one another: a test took 32 s, and 4 s alone
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
program_cache.switch_on()
# no test reads the cache folder of whoever runs it; matplotlib's list of fonts stays where it is
_USERS = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
os.environ.setdefault("MPLCONFIGDIR", os.path.join(_USERS, "matplotlib"))
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pgmjax-cache-")
# nor does an interrupted run of a test go on from one of theirs
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="pgmjax-state-")
for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
    atexit.register(shutil.rmtree, os.environ[name], ignore_errors=True)
# a run meets thousands of structures and comes back to many: dropping their programs costs time
os.environ.setdefault("PGMJAX_MAX_MAPS", "30000")

# Tracing makes millions of small objects beside the many that stay: collecting them as often as Python does
# by itself took an eighth of a run with kept programs.
gc.set_threshold(50_000, 20, 100)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # so do shells start what runs in the background; tests that interrupt a process need one that hears it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples in every run, and no time limit: a red test is a fault and never bad luck.
# HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile("house", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


@pytest.hookimpl(tryfirst=True)  # before those that the command leaves out are
def pytest_collection_modifyitems(config, items):
    """Long tests run in part by default."""
    thinned.thin(config, items)


@pytest.fixture(scope="module", autouse=True)
def room_for_programs():
    """Forget compiled programs before there are too many.

    Each takes a few of the 65,530 memory maps that Linux gives a process, and XLA dies of a segmentation
    fault where the next one finds none left (seen after some 4,000 tests). A module adds some thousands.
    """
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 40_000:
        import jax

        jax.clear_caches()


@pytest.fixture(autouse=True)
def no_unfinished_runs():
    """No test goes on from a run that another one left unfinished."""
    yield
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real tables; tests that need it are skipped where it is not set."""
    where = os.environ.get("PGMJAX_DATA")
    if not where:
        pytest.skip("PGMJAX_DATA is not set: it names the folder of real tables this test reads")
    folder = pathlib.Path(where)
    if not folder.is_dir():
        pytest.skip(f"PGMJAX_DATA names {folder}, which is not a folder")
    return folder


@pytest.fixture(scope="session")
def small_domain():
    """A public domain with every kind of attribute and names that need care."""
    from pgmjax.data.domain import Domain

    return Domain(
        {
            "age": {"bins": [0, 18, 40, 65, 100], "missing": "?"},
            "sex": {"labels": ["Female", "Male"]},
            "region": 3,
            "income>50K, net": {"labels": ["<no>", "yes & more"]},
        }
    )


@pytest.fixture(scope="session")
def small_columns():
    """Raw values of 400 records over `small_domain`."""
    import numpy as np

    rng = np.random.default_rng(7)
    sex = rng.integers(0, 2, 400)
    age = rng.integers(0, 100, 400).astype(str)
    age[rng.random(400) < 0.05] = "?"
    return {
        "age": age.tolist(),
        "sex": np.where(sex, "Male", "Female").tolist(),
        "region": ((sex + rng.integers(0, 2, 400)) % 3).tolist(),
        "income>50K, net": np.where(rng.random(400) < 0.3, "yes & more", "<no>").tolist(),
    }


@pytest.fixture(scope="session")
def small_release(small_domain, small_columns):
    """A release of `small_columns` with repeatable noise: two pairs, a single and cumulative counts."""
    import pandas

    from pgmjax.data.dataset import Dataset
    from pgmjax.data.relation import Relation
    from pgmjax.mechanisms import Marginals
    from pgmjax.privacy.seeded import SeededBackend
    from pgmjax.queries.workload import Workload

    data = Dataset.from_frame(small_domain, pandas.DataFrame(small_columns))
    cumulative = {"clique": ["age", "sex"], "queries": {"age": "prefix"}, "weight": 2}
    workload = Workload([["age", "region"], ["sex", "region"], ["income>50K, net"], cumulative])
    backend = SeededBackend(3, insecure=True)
    mechanism = Marginals(epsilon="0.5", relation=Relation.ADD_REMOVE, backend=backend)
    return mechanism.run(data, workload, show_progress=False)


@pytest.fixture
def on_disk(monkeypatch):
    """What was put on disk since it was last written, by its identity: a power cut leaves this."""
    synced, fsync = {}, os.fsync

    def noted(handle):
        fsync(handle)
        found = os.fstat(handle)
        synced[found.st_dev, found.st_ino] = found.st_mtime_ns

    def is_synced(path):
        found = path.stat()
        return synced.get((found.st_dev, found.st_ino)) == found.st_mtime_ns

    monkeypatch.setattr(os, "fsync", noted)
    return is_synced
