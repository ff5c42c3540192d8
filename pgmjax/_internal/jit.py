"""Compile programs: `jax.jit` with options that shorten compilation on a CPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax

# XLA's newer CPU fusion emitters take about twice as long to compile the many small fusions of a
# contraction, and LLVM's higher optimisation levels a third longer, for programs that run no faster
# (bench/compiling.py measures them).
CPU_OPTIONS = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


def jit(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """Compile like `jax.jit`, but look up the backend only at the first call.

    Args:
        function: function to compile.
        settings: keyword arguments of `jax.jit`.
    """

    @functools.cache
    def compiled(backend: str) -> Any:
        return jax.jit(function, compiler_options=options(backend), **settings)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return compiled(jax.default_backend())(*arguments, **named)

    call.compiled = compiled  # type: ignore[attr-defined]
    return call


def precision(dtype: str) -> Any:
    """Context in which arrays of a dtype can be created, without changing global flags."""
    return jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext()


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


def cache_size(function: Callable[..., Any]) -> int:
    """Number of programs compiled for a function made by `jit`."""
    return function.compiled(jax.default_backend())._cache_size()  # type: ignore[attr-defined]
