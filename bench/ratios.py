"""The project's targets against its peer, and the table of ratios that shows how far they are reached."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import harness
from harness import Line

BATCH = "fit-adult9@64"  # 64 fits at once, against 64 single ones


@dataclasses.dataclass(frozen=True)
class Target:
    """What the project aims at on one case.

    Attributes:
        case: its name.
        against: the side that ratios are taken to.
        first: how many times faster the first call must be; stretch in brackets; likewise below.
        later: the same for later calls.
        step: the same for the later calls of a fit, a step.
        peak: our peak of memory over theirs, at most.
        loss: our loss at most; 0 stands for the peer's own.
        seconds: of our first call, at most.
    """

    case: str
    against: str = "mbi"
    first: tuple[float, ...] = ()
    later: tuple[float, ...] = ()
    step: tuple[float, ...] = ()
    peak: float | None = None
    loss: float | None = None
    seconds: float | None = None


TARGETS = (
    Target("oracle-chain-1000", first=(30, 60), later=(3, 6)),
    Target("oracle-chain-10000", against="ours", seconds=3.0),
    Target("oracle-tree-300", first=(10,), later=(3,)),
    Target("oracle-adult15-s0", first=(1,), later=(30, 100)),
    Target("oracle-adult15-s0", against="mbi-fast", later=(3,)),
    Target("oracle-adult15-s1", against="mbi-fast", first=(2,), later=(2, 4), peak=0.75),
    Target("oracle-adult15-s2", against="mbi-fast", first=(2,), later=(2, 4), peak=0.75),
    Target("fit-adult15-s1", against="mbi-fast", step=(3,), loss=0),
    Target("oracle-loans15", first=(1,), later=(1.5, 2)),
    Target("oracle-stroke15", first=(1,), later=(1, 1.5)),
    Target("fit-adult9", first=(3, 5), later=(6, 12), loss=11_480),
    Target("fit-loans15", first=(4,), later=(3,), loss=0),
    Target("fit-chain-300", first=(10,), later=(4,), loss=0),
    Target("loop-adult", first=(5, 12), loss=0),
    Target(BATCH, against="singles", later=(2,)),
)


def seconds(value: float | None) -> str:
    """A time in the unit that reads best."""
    if value is None:
        return "-"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def table(lines: Iterable[Line]) -> str:
    """The ratios of all cases: a row for each case and each side that it is held against."""
    groups: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        groups.setdefault(line["case"], {}).setdefault(line["side"], []).append(line)
    rows = [("case", "against", "first call", "later calls", "peak", "loss")]
    for case, sides in groups.items():
        targets = {target.against: target for target in TARGETS if target.case == case}
        for side in sides:
            if side != "ours":
                targets.setdefault(side, Target(case, side))
        if "ours" in sides and not targets:
            targets["ours"] = Target(case, "ours")
        rows += [
            row(target, sides.get("ours", []), sides.get(target.against, [])) for target in targets.values()
        ]
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(w.ljust(n) for w, n in zip(r, widths, strict=True)).rstrip() for r in rows)


def row(target: Target, ours: list[Line], theirs: list[Line]) -> tuple[str, ...]:
    """One row: for each measure theirs, ours and the ratio, and how it stands to the target."""
    if target.against == "singles":
        theirs = [{"warm_s": line["singles_s"]} for line in ours if "singles_s" in line]
    elif target.against == "ours":
        theirs = []
    whole = [line for line in theirs if not line.get("peer_steps")] or theirs
    first = compared("cold_s", ours, whole, target.first)
    own = harness.median(ours, "cold_s")
    if target.seconds is not None and own is not None:
        first += f" ({mark(own <= target.seconds)}: at most {target.seconds:g} s)"
    if target.step or any(line.get("peer_steps") for line in whole):
        later = compared("step_s", ours, theirs, target.step) + " a step"
    else:
        later = compared("warm_s", ours, whole, target.later)
    runs = f"{len(ours)} and {len(theirs)} runs" if theirs else f"{len(ours)} runs"
    failed = [f"{line['side']}: {line['failed'][:100]}" for line in (*ours, *theirs) if "failed" in line]
    end = loss(target, ours, whole) + "".join(f"  [{text}]" for text in dict.fromkeys(failed))
    return target.case, f"{target.against} ({runs})", first, later, peak(target, ours, whole), end


def mark(reached: bool) -> str:
    """Whether a target is reached, in a word."""
    return "reached" if reached else "SHORT"


def compared(key: str, ours: list[Line], theirs: list[Line], goal: tuple[float, ...]) -> str:
    """Both medians, the ratio and the target."""
    own, other = harness.median(ours, key), harness.median(theirs, key)
    if own is None:
        return "-"
    if other is None:
        return seconds(own)
    text = f"{seconds(other)} / {seconds(own)} = {other / own:.3g}x"
    if not goal:
        return text
    stretch = f", stretch {goal[1]:g}x" if len(goal) > 1 else ""
    return f"{text} ({mark(other / own >= goal[0])} of {goal[0]:g}x{stretch})"


def peak(target: Target, ours: list[Line], theirs: list[Line]) -> str:
    """Both peaks of memory and their ratio."""
    own, other = harness.median(ours, "peak_mb"), harness.median(theirs, "peak_mb")
    if own is None or other is None:
        return "-" if own is None else f"{own:,.0f} MB"
    text = f"{own:,.0f} of {other:,.0f} MB = {own / other:.2f}"
    return text if target.peak is None else f"{text} ({mark(own / other <= target.peak)} of {target.peak:g})"


def loss(target: Target, ours: list[Line], theirs: list[Line]) -> str:
    """Both losses."""
    own = harness.median(ours, "loss")
    other = harness.median(theirs, "loss")
    if own is None:
        return "-"
    text = f"{own:,.1f}" + ("" if other is None else f" to {other:,.1f}")
    short = {line.get("peer_steps") for line in theirs} - {None}
    if short and other is not None:
        text += f" after {max(short)} steps"
    if target.loss is None or (target.loss == 0 and other is None):
        return text
    return f"{text} ({mark(own <= (target.loss or other or 0.0))})"
