"""Compile programs: `jax.jit` with options that shorten compilation on a CPU, and a bound on what is kept.

A compiled program takes up to 150 of the memory maps that Linux gives a process (65,530 by default). A
service that meets hundreds of structures would run out of them, and XLA ends the process then. Hence only the
programs that were used last are kept. A program that was dropped is compiled again when it is needed.
"""

from __future__ import annotations

import collections
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax

from pgmjax._internal import device

# XLA's newer CPU fusion emitters take about twice as long to compile the many small fusions of a
# contraction, and LLVM's higher optimisation levels a third longer, for programs that run no faster
# (docs/lab/bench-costs.md has the figures).
CPU_OPTIONS = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}

VARIABLE, DEFAULT_MAPS = "PGMJAX_MAX_MAPS", 5000
MAPS_EACH = 64  # assumed where the system does not say how many memory maps there are


def jit(function: Callable[..., Any], *, long_run: bool = False, **settings: Any) -> Callable[..., Any]:
    """Compile like `jax.jit`, but look up the backend only at the first call, and keep a bounded number.

    Products that ask for no precision get the highest, whatever `jax_default_matmul_precision` says.

    Args:
        function: function to compile.
        long_run: see `options`.
        settings: keyword arguments of `jax.jit`; static arguments are given by position.
    """
    held = _Held()
    static = settings.get("static_argnums", ())
    static = (static,) if isinstance(static, int) else tuple(static)

    def made() -> Any:
        @functools.wraps(function)
        def alone(*arguments: Any, **named: Any) -> Any:  # JAX's caches die with this function
            with jax.default_matmul_precision("highest"):
                return function(*arguments, **named)

        chosen = dict(settings)
        if "compiler_options" not in chosen:
            chosen["compiler_options"] = options(device.platform(), long_run=long_run)
        return jax.jit(alone, **chosen)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        program = _KEPT.get(held, _key(arguments, named, static), made)
        return program.run(*arguments, **named) if program.counted else _KEPT.count(program, arguments, named)

    call.held = held  # type: ignore[attr-defined]
    return call


def cache_size(function: Callable[..., Any]) -> int:
    """Number of programs that are kept for a function made by `jit`."""
    return len(function.held)  # type: ignore[attr-defined]


def max_maps() -> int:
    """The number of memory maps that compiled programs may take: `PGMJAX_MAX_MAPS`, or 5,000.

    Raises:
        ValueError: the variable is not a whole number.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if text and not text.isdecimal():
        raise ValueError(f"The environment variable {VARIABLE} must be a whole number, got {text!r}.")
    return int(text) if text else DEFAULT_MAPS


class _Held(dict[Hashable, "_Program"]):
    """The programs of one function, by the form of their arguments; they die with the function."""


class _Program:
    """A compiled program.

    Attributes:
        run: the program.
        home: the programs of the same function.
        key: its place there.
        number: programs are numbered in the order in which they were made.
        maps: memory maps that its compilation took.
        counted: whether these were counted.
    """

    __slots__ = ("__weakref__", "counted", "home", "key", "maps", "number", "run")

    def __init__(self, run: Any, home: _Held, key: Hashable, number: int):
        self.run, self.home, self.key, self.number = run, weakref.ref(home), key, number
        self.maps, self.counted = 0, False


class _Kept:
    """All compiled programs, in the order of their last use."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.numbers = itertools.count()
        self.recent: collections.OrderedDict[int, weakref.ref[_Program]] = collections.OrderedDict()

    def get(self, held: _Held, key: Hashable, made: Callable[[], Any]) -> _Program:
        """Return the program for a form of arguments: the one that is kept, or a new one."""
        with self.lock:
            program = held.get(key)
            if program is None:
                number = next(self.numbers)
                program = held[key] = _Program(made(), held, key, number)
                self.recent[number] = weakref.ref(program, lambda _: self.recent.pop(number, None))
            else:
                self.recent.move_to_end(program.number)
            return program

    def count(self, program: _Program, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a program that was not compiled before, count its memory maps and drop what is too much."""
        before = _maps()
        result = program.run(*arguments, **named)
        if program.run._cache_size():  # else it became a part of another program
            program.maps = MAPS_EACH if before is None else max(1, (_maps() or 0) - before)
            program.counted = True
            self.drop(max_maps())
        return result

    def drop(self, bound: int) -> None:
        """Drop the programs that were not used for longest, but for the last one."""
        with self.lock:
            programs = [program for ref in list(self.recent.values()) if (program := ref()) is not None]
            total = sum(program.maps for program in programs)
            for program in programs[:-1]:
                if total <= bound:
                    return
                if not program.counted:
                    continue
                total -= program.maps
                self.recent.pop(program.number, None)
                home = program.home()
                if home is not None:
                    home.pop(program.key, None)


_KEPT = _Kept()
max_maps()  # a wrong setting is refused when the library is loaded, before anything is spent


def _key(arguments: tuple[Any, ...], named: dict[str, Any], static: tuple[int, ...]) -> Hashable:
    """Return what determines a program: static arguments, and the form of the others."""
    traced = [argument for place, argument in enumerate(arguments) if place not in static]
    leaves, tree = jax.tree.flatten((traced, named))
    # a list, and no call of NumPy for each leaf: with a small model that would be a good part of a call
    forms = tuple(
        [
            (getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf)), getattr(leaf, "weak_type", None))
            for leaf in leaves
        ]
    )
    fixed = tuple(arguments[place] for place in static if place < len(arguments))
    return tree, forms, fixed, device.platform(), jax.config.jax_enable_x64  # type: ignore[attr-defined]


def _maps() -> int | None:
    """Return the number of memory maps of this process, None where the system does not say."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return None


def options(backend: str, *, long_run: bool = False) -> dict[str, Any] | None:
    """XLA compiler options for a backend, as accepted by `jax.jit`; None for the defaults.

    Args:
        backend: name of the JAX backend.
        long_run: keep LLVM's higher optimisation levels, for programs that run much longer than they take to
            compile.
    """
    if backend != "cpu":
        return None
    chosen = dict(_known())
    if long_run:
        chosen.pop("xla_backend_optimization_level", None)
    return chosen or None


@functools.cache
def _known() -> dict[str, Any]:
    """The options in `CPU_OPTIONS` that the installed XLA supports."""
    return {name: value for name, value in CPU_OPTIONS.items() if _is_taken({name: value})}


def _is_taken(compiler_options: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=compiler_options)()
    except jax.errors.JaxRuntimeError:
        return False
    return True
