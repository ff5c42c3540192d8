"""Compiled programs are kept between runs of the tests and shared by their processes.

Only programs are kept, by jax's own compilation cache: what a program is given and what it answers is
computed anew in every run, and a program of other code, other options or another jax has another name.

The folder is `pgmjax-tests` in the user's cache folder, or what PGMJAX_TEST_CACHE names (empty: nothing is
kept). In it each pair of a jax and a processor has a folder of its own, for a program compiled for one
processor can die on another of an illegal instruction.
"""

import functools
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import threading
import time

KEPT = (
    30 * 24 * 3600
)  # seconds after which a program is compiled again, so that the folder does not grow forever
OF_THE_PROCESSOR = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")


def processor():
    """What programs are compiled for: maker, model and instruction sets of the first core, as text."""
    words = [platform.machine(), platform.processor()]
    try:
        first = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        words += [line for line in first.splitlines() if line.startswith(OF_THE_PROCESSOR)]
    except OSError:
        pass
    return "\n".join(words)


def folder():
    """Where this jax keeps programs for this processor, or None where nothing is to be or can be kept."""
    named = os.environ.get("PGMJAX_TEST_CACHE")
    if named == "":
        return None
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    key = hashlib.sha256(processor().encode()).hexdigest()[:16]
    try:
        user = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        found = (pathlib.Path(named) if named else user / "pgmjax-tests") / "-".join([*versions, key])
        found.mkdir(parents=True, exist_ok=True)
        trial = found / f"writable-{os.getpid()}"
        trial.touch()
        trial.unlink()
    except (OSError, RuntimeError):  # no home, or a folder or disk that takes nothing
        return None
    return found


def forget_the_old(found):
    """Programs of a month ago go."""
    for entry in found.iterdir():
        try:
            if entry.stat().st_mtime < time.time() - KEPT:
                entry.unlink()
        except OSError:  # another process was faster
            pass


def put(cache, key, value):
    """Write an entry under another name first.

    jax writes into the final name: a process beside it may read half an entry, and one that is killed leaves
    half of one for good. Here an entry is there as a whole or not at all, and of two writers the later one
    wins with the same program.
    """
    entry = pathlib.Path(cache.path) / f"{key}-cache"
    part = entry.with_name(f"part-{os.getpid()}-{threading.get_ident()}")
    part.write_bytes(value)
    part.replace(entry)


def compile_quickly():
    """Have XLA spend little on what tests compile themselves, and on operations one by one.

    What the library compiles by `pgmjax._internal.jit` says itself how, and keeps to that; programs of
    batches, which leave the level of optimisation to XLA, and single operations have the level set here.
    """
    version = tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2]))
    flags = ["--xla_backend_optimization_level=0"]
    if version < (0, 11):  # a later XLA does not know it, and ends the process
        flags.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()


@functools.cache
def switch_on():
    """Have jax compile quickly and keep programs; to be called before anything imports it."""
    compile_quickly()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        found = folder()
        if found is None:
            return
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(found.absolute())
        forget_the_old(found)
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    from jax._src import lru_cache

    lru_cache.LRUCache.put = put
    # processes that tests start, and some of them kill, read programs and keep none
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "1e9"
