"""Programs are kept whole, apart for every jax and processor, and nowhere where nothing can be written."""

import os
import pathlib
import time
import types

import jax
import jax.numpy as jnp
import pytest

from tests import program_cache


def test_a_folder_for_each_jax_and_processor(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMJAX_TEST_CACHE", str(tmp_path))
    here = program_cache.folder()
    assert here.parent == tmp_path and here.name.startswith(jax.__version__) and list(here.iterdir()) == []
    assert program_cache.folder() == here
    monkeypatch.setattr(program_cache, "processor", lambda: "another")
    assert program_cache.folder() != here


def test_nothing_is_kept_where_nothing_is_to_be_or_can_be(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMJAX_TEST_CACHE", "")
    assert program_cache.folder() is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("PGMJAX_TEST_CACHE", str(tmp_path / "file"))
    assert program_cache.folder() is None


def test_an_entry_is_there_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    cache = types.SimpleNamespace(path=tmp_path)
    program_cache.put(cache, "key", b"one")
    program_cache.put(cache, "key", b"two")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"key-cache": b"two"}

    def killed(path, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(pathlib.Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        program_cache.put(cache, "other", b"half")
    assert not (tmp_path / "other-cache").exists()


def test_programs_of_a_month_ago_go(tmp_path):
    for name, age in (("old", program_cache.KEPT + 100), ("new", 100)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    program_cache.forget_the_old(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_this_run_keeps_its_programs():
    """As long as jax calls what `put` stands in for."""
    kept = jax.config.jax_compilation_cache_dir
    if not kept or os.environ.get("PGMJAX_TEST_CACHE") == "":
        pytest.skip("this run keeps no programs")

    @jax.jit
    def told_apart_by_its_name(x):
        return jnp.sin(x) + 4.25

    for earlier in pathlib.Path(kept).glob("*told_apart_by_its_name*"):
        earlier.unlink(missing_ok=True)
    told_apart_by_its_name(jnp.ones(3))
    assert list(pathlib.Path(kept).glob("*told_apart_by_its_name*-cache"))
