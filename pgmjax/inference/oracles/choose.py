"""Plan an oracle for named attributes: the one that the user names, or the cheapest one that fits in memory.

"auto" follows three rules. What does not fit in memory is no option. Of what fits
(a contraction, levels, NumPy) it takes the one whose compiling and calls together are forecast to take the
least time. If nothing fits, or on a CPU if a contraction is larger than the cache, it takes slices.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from jax.sharding import Mesh

from pgmjax._internal import checks, device
from pgmjax.inference.oracles import host
from pgmjax.inference.oracles.base import Beginning, Limits, Oracle, Plan, require_registered
from pgmjax.inference.oracles.contraction import Contraction, HostContraction
from pgmjax.inference.plan import elimination, forecast
from pgmjax.inference.plan.contraction import PRODUCT_OPERATIONS
from pgmjax.inference.plan.forecast import device_rates
from pgmjax.inference.plan.structure import Structure

if TYPE_CHECKING:
    from pgmjax.inference.oracles.chain import Chain
    from pgmjax.inference.oracles.levels import Levels
    from pgmjax.inference.oracles.sliced import Sliced
    from pgmjax.inference.plan import levels

# What follows was tuned on the tables' cases of bench/cases.py (Adult, loans, stroke) and on its chains and
# trees; docs/lab/ablations.md says what it wins.
DEFAULT_CALLS = 500  # of a plan whose calls are not known
SOLVER_OPERATIONS = 100  # operations compiled around an oracle, such as those of a solver's step
UNBOUNDED_SLOWDOWN = 2  # of a call on the host, if potentials differ by hundreds of nats
LEVELS_FROM_OPERATIONS = 600  # compiled operations of a contraction, from which on levels are considered
MOST_PLANNED_CLIQUES = 400  # with more, no contraction is planned if levels take less than to compile one
FEWEST_HOST_CALLS = 3  # of a beginning in NumPy: fewer gain nothing, as the next call compiles
# On a CPU, slices that fit in its cache are faster than a contraction of more than twice that, as long as
# they repeat little work.
CACHE_BYTES, MOST_OVERHEAD = 40_000_000, 1.6


@functools.cache
def exact() -> dict[str, type[Oracle]]:
    """The oracles that `Estimator(oracle=...)` accepts by name: add new oracles here.

    Most are imported here, where one is named: "auto" takes a contraction for most models.
    """
    from pgmjax.inference.oracles.chain import Chain
    from pgmjax.inference.oracles.levels import Levels
    from pgmjax.inference.oracles.message_passing import MessagePassing
    from pgmjax.inference.oracles.sliced import Sliced

    every = (Contraction, Levels, Chain, Sliced, MessagePassing, HostContraction)
    return {each.name: each for each in every}


def names() -> tuple[str, ...]:
    """Names that `Estimator(oracle=...)` accepts besides `auto`."""
    return tuple(exact())


def kind(oracle: str | type[Oracle]) -> type[Oracle]:
    """The class of an oracle, from its name or itself.

    Raises:
        TypeError: neither a name nor a class of oracles.
        ValueError: unknown name.
    """
    if isinstance(oracle, type) and issubclass(oracle, Oracle):
        return oracle
    if isinstance(oracle, Oracle):
        raise TypeError(f"oracle must be a class, got one object of it: write {type(oracle).__name__}.")
    checks.kind(oracle, str, "oracle must be a name or a class such as MessagePassing")
    return exact()[checks.choice("oracle", oracle, exact(), "a class of oracles")]


def check(oracle: Any) -> str | type[Oracle]:
    """Return a setting of an oracle: "auto", a name as it is listed, or a class; refuse what is none."""
    if isinstance(oracle, str):
        others = () if oracle == "auto" else exact()
        return checks.choice("oracle", oracle, ("auto", *others), "a class of oracles")
    from pgmjax.inference.oracles.belief_propagation import RegionOracle

    found = kind(oracle)
    if issubclass(found, RegionOracle):
        raise ValueError(
            f"{found.__name__} approximates, and a fit by it could not be certified: take approximate=True, "
            f"which fits by regions, or build {found.__name__} for potentials that you have."
        )
    return found


_FIT_LESS = (
    "Leave the choice of what to measure to the mechanism MST or AIM, or ask for fewer tables, which share "
    "few attributes: Workload([('age', 'sex'), ...]). Estimator(approximate=True) fits given answers."
)


def plan(
    structure: Structure,
    attributes: tuple[str, ...],
    oracle: str | type[Oracle] = "auto",
    *,
    itemsize: int = 4,
    copies: int = forecast.ORACLE_COPIES,
    max_bytes: int | None = None,
    finite: bool = True,
    mesh: Mesh | None = None,
    calls: int | None = None,
    compiled: bool = False,
    bounded: bool = True,
) -> Plan:
    """Plan inference, or raise an error with the forecast cost if it does not fit in memory.

    Args:
        structure: sizes and cliques.
        attributes: name of each variable.
        oracle: `auto`, one of `names()`, or a class of oracles.
        itemsize: bytes per cell, 4 or 8.
        copies: number of copies of the potentials in memory at the same time.
        max_bytes: memory that may be used. Default: the free memory of the device.
        finite: whether no potential will be minus infinity, which fast matrix products do not support.
        mesh: devices that share one call, each running some of its slices; None uses one device.
        calls: number of calls that "auto" plans for; None if it is not known: then the oracle is a compiled
            one, and the first calls of `infer` run in NumPy.
        compiled: whether the oracle is for a compiled program, so that "auto" does not choose the host.
        bounded: whether potentials stay moderate. Those of a fit to the optimum of its loss may not, and the
            host is slower then.

    Raises:
        ValueError: an unknown oracle, or a mesh with an oracle that has no slices.
        ModelTooLargeError: the forecast exceeds the memory.
    """
    oracle = check(oracle)
    if not all(structure.cliques) or not structure.cliques:
        raise ValueError(
            "A structure to plan for has at least one clique, and a clique at least one variable."
        )
    most = None if max_bytes is None else forecast.memory_limit(max_bytes)
    if mesh is not None:
        from pgmjax._internal import sharding

        mesh = sharding.check(mesh)
    limits = Limits(most, itemsize, copies, finite, mesh, calls or 1)
    if mesh is not None and oracle not in ("auto", "sliced"):
        raise ValueError(f"only slices are shared between devices: write oracle='sliced', got {oracle!r}.")
    begun = None
    if oracle != "auto" or mesh is not None:  # "auto" with a mesh: slices
        chosen = kind("sliced" if oracle == "auto" else oracle).within(structure, limits)
        require_registered(chosen)
    elif calls is None:
        chosen = _cheapest(structure, limits, DEFAULT_CALLS, None)
        begun = None if compiled else _beginning(chosen, limits)
    else:
        slowdown = None if compiled else 1 if bounded else UNBOUNDED_SLOWDOWN
        chosen = _cheapest(structure, limits, calls or DEFAULT_CALLS, slowdown)
    made, cost = Plan(chosen, attributes, itemsize, copies, max_bytes, begun, calls), chosen.forecast
    if not limits.allow(cost):
        least = elimination.least_in_words(structure)
        forecast.require_memory(cost, attributes, made.peak_bytes, limits.bytes, least)
    # what is fitted in slices can be asked, in the same memory; a question takes about as long as a call
    if chosen.shares_devices and cost.seconds > host.QUESTION_SECONDS:
        host.divide(structure, host.QuestionLimits(limits.bytes), remedy=_FIT_LESS)
    return made


def _cheapest(structure: Structure, limits: Limits, calls: int, slowdown: float | None) -> Oracle:
    """Take an oracle by three rules.

    Args:
        structure: sizes and cliques.
        limits: memory.
        calls: number of calls.
        slowdown: of a call on the host; None if a compiled oracle is asked for.
    """
    # 1. What does not fit in memory is no option.
    options = _options(structure, limits, calls, slowdown is not None)
    fitting = [each for each in options if limits.allow(each.forecast)]
    # 2. Of what fits, what takes the least time: in a row or in slices, where such a form is faster.
    if fitting:
        chosen = min(fitting, key=lambda each: _total_seconds(each, calls, slowdown))
        return _in_cache(chosen, limits) if isinstance(chosen, Contraction) else _in_a_row(chosen, limits)
    # 3. If nothing fits, slices; if not even they do, the error message reports the forecast of the whole.
    with contextlib.suppress(forecast.ModelTooLargeError):
        return kind("sliced").within(structure, limits)
    return Contraction.within(structure, limits)


def _options(
    structure: Structure, limits: Limits, calls: int, on_host: bool
) -> list[Contraction | levels.Arrangement]:
    """A contraction, levels and NumPy, as far as they are worth planning; levels without their index maps."""
    many = len(structure.cliques) > MOST_PLANNED_CLIQUES
    arranged = _arranged(structure) if many else None
    if arranged and limits.allow(arranged.forecast):
        # any contraction takes so long to compile
        compiling = PRODUCT_OPERATIONS * len(structure.cliques) * device_rates().operation
        if not device.is_cpu() or _total_seconds(arranged, calls) <= compiling:
            return [arranged]
    whole = Contraction.within(structure, limits)
    if not many and whole.forecast.operations > LEVELS_FROM_OPERATIONS:
        arranged = _arranged(structure)
    # NumPy beside a card too, whose programs take seconds to compile
    return [whole, *([arranged] if arranged else []), *([HostContraction(whole.path)] if on_host else [])]


def _arranged(structure: Structure) -> levels.Arrangement | None:
    """Levels, or None if their cells cannot be numbered."""
    from pgmjax.inference.plan import levels

    with contextlib.suppress(forecast.ModelTooLargeError):
        return levels.arrange(structure)
    return None


def _total_seconds(
    option: Contraction | levels.Arrangement, calls: int, slowdown: float | None = None
) -> float:
    """Return a forecast of the time of some calls, and of compiling if they are compiled."""
    if isinstance(option, HostContraction):
        return (slowdown or 1) * calls * option.forecast.seconds
    return _compiling(option.forecast) + calls * option.forecast.seconds


def _compiling(cost: forecast.Forecast) -> float:
    """Return a forecast of the time to compile an oracle and what is around it."""
    return SOLVER_OPERATIONS * device_rates().operation + cost.compile_seconds


def _in_a_row(arranged: levels.Arrangement, limits: Limits) -> Levels | Chain:
    """Levels; off a CPU, the cliques in a row if that is forecast to be faster: it has fewer launches."""
    from pgmjax.inference.oracles.chain import Chain
    from pgmjax.inference.oracles.levels import Levels
    from pgmjax.inference.plan import chain

    if not device.is_cpu():
        with contextlib.suppress(forecast.ModelTooLargeError):
            row = chain.arrange(arranged.structure)
            if limits.allow(row.forecast) and row.forecast.gpu_seconds < arranged.forecast.gpu_seconds:
                return Chain.of(row)
    return Levels.of(arranged)


def _in_cache(whole: Contraction, limits: Limits) -> Contraction | Sliced:
    """A contraction; compiled on a CPU, slices that fit in cache, if its tables do not."""
    if not whole.runs_on_host and device.is_cpu() and whole.forecast.peak_bytes(4) > 2 * CACHE_BYTES:
        from pgmjax.inference.oracles.sliced import Sliced
        from pgmjax.inference.plan import slicing

        with contextlib.suppress(forecast.ModelTooLargeError):
            plan = slicing.plan(whole.structure, CACHE_BYTES)
            if plan.slices > 1 and plan.overhead <= MOST_OVERHEAD:
                return Sliced(plan, limits.finite)
    return whole


def _beginning(chosen: Oracle, limits: Limits) -> Beginning | None:
    """The calls on the host that take together as long as compiling the chosen oracle."""
    if len(chosen.structure.cliques) > MOST_PLANNED_CLIQUES:
        return None
    on_host = HostContraction(chosen.contraction_path())
    calls = int(_compiling(chosen.forecast) / on_host.forecast.seconds)
    worthwhile = calls >= FEWEST_HOST_CALLS and limits.allow(on_host.forecast)
    return Beginning(on_host, calls) if worthwhile else None
