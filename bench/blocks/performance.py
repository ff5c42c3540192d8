"""Costs: the peers' cases, growth, forecasts, whole releases, rows, networks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from harness import seconds

from blocks.text import Line, by, last_code, markdown, median, newest

# the project's aims on single cases, as ratios of the peer's seconds to ours: first call, later calls
AIMS = {
    ("oracle-chain-1000", "mbi"): (30, 3),
    ("oracle-tree-300", "mbi"): (10, 3),
    ("oracle-adult15-s0", "mbi"): (1, 30),
    ("oracle-adult15-s0", "mbi-fast"): (None, 3),
    ("oracle-adult15-s1", "mbi-fast"): (2, 2),
    ("oracle-adult15-s2", "mbi-fast"): (2, 2),
    ("oracle-loans15", "mbi"): (1, 1.5),
    ("oracle-stroke15", "mbi"): (1, 1),
    ("fit-adult9", "mbi"): (3, 6),
    ("fit-loans15", "mbi"): (4, 3),
    ("fit-chain-300", "mbi"): (10, 4),
    ("loop-adult", "mbi"): (5, None),
}


def _sides(lines: Sequence[Line]) -> dict[tuple[str, str], list[Line]]:
    """The runs that did not fail, of the newest code that each case and side was run with."""
    return {key: last_code(x) for key, x in by([x for x in lines if "cold_s" in x], "case", "side").items()}


def _ratio(theirs: float | None, ours: float | None, aim: float | None) -> str:
    if theirs is None or ours is None:
        return ""
    goal = "" if aim is None else f" (aim {aim:g}x)"
    return f"{seconds(theirs)} / {seconds(ours)} = **{theirs / ours:.3g}x**{goal}"


def peers(lines: Sequence[Line], pairs: Sequence[tuple[str, str]] = tuple(AIMS)) -> str:
    """Cases beside the peer: medians, ratios and aims."""
    found, rows = _sides(lines), []
    for case, side in pairs:
        both = found.get((case, side), []), found[case, "ours"]
        first, later, peak, loss = (
            [median(line.get(key) for line in each) for each in both]
            for key in ("cold_s", "warm_s", "peak_mb", "loss")
        )
        aims = AIMS.get((case, side), (None, None))
        memory = " / ".join("-" if x is None else f"{x:.0f}" for x in peak)
        losses = "" if None in loss else " / ".join(f"{x:,.0f}" for x in loss)
        times = [_ratio(*first, aims[0]), _ratio(*later, aims[1])]
        rows.append([f"{case} ({len(both[1])})", side, *times, memory, losses])
    head = ["case", "against", "first call, s: mbi / pgmjax", "later calls: mbi / pgmjax"]
    return markdown([*head, "peak, MB: mbi / pgmjax", "loss: mbi / pgmjax"], rows)


def peers_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """Cases without a peer."""
    found = _sides(lines)
    chain, batch = found["oracle-chain-10000", "ours"], found["fit-adult9@64", "ours"]
    return {
        "chain-first": seconds(median(x["cold_s"] for x in chain)),
        "chain-later": seconds(median(x["warm_s"] for x in chain)),
        "chain-peak": f"{median(x['peak_mb'] for x in chain):.0f}",
        "batch-first": seconds(median(x["cold_s"] for x in batch)),
        "batch-later": seconds(median(x["warm_s"] for x in batch)),
    }


def to_loss(lines: Sequence[Line]) -> str:
    """Calls up to the peer's loss, in turn with it: ratios of medians."""
    found, rows = by(lines, "case", "side"), []
    for case in dict.fromkeys(line["case"] for line in lines):
        sides = found[case, "mbi"], found[case, "ours"]
        ratios = [
            median(x[key] for x in sides[0]) / median(x[key] for x in sides[1])
            for key in ("cold_s", "warm_s")
        ]
        rows.append([case, *(f"{ratio:.3g}x" for ratio in ratios), str(len(sides[1]))])
    return markdown(["case", "first call", "later calls", "runs"], rows)


def growth(lines: Sequence[Line]) -> str:
    """The smallest and the largest point of each sweep."""
    names = {
        "attributes": "attributes of a chain, 10 x 10 x 10 a clique",
        "cliques": "attributes of a tree of pairs",
        "size": "cells of a clique, 30 attributes",
        "loops": "random pairs over 128 attributes",
        "rows": "rows of a Parquet file, 45 pairs counted",
        "batch": "fits in a batch, chain of 30, 100 steps",
        "choosing": "binary attributes, their pairs that fit chosen",
    }
    rows = []
    for sweep, name in names.items():
        points = [x for x in newest(lines, "sweep", "point") if x["sweep"] == sweep and "failed" not in x]
        ends = min(points, key=lambda x: x["point"]), max(points, key=lambda x: x["point"])
        rows.append([name, *map(_point, ends), f"{ends[1]['peak_mb'] / 1024:.2g} GB"])
    return markdown(["what grows", "smallest: first / later", "largest: first / later", "peak there"], rows)


def _point(line: Line) -> str:
    keys = ("cold_s", "warm_s") if "cold_s" in line else ("seconds",)
    return f"{line['point']:,}: " + " / ".join(_two(line[key]) for key in keys)


def _two(value: float) -> str:
    return (
        f"{value:#.2g} s".replace(". s", " s")
        if value >= 0.1
        else f"{1e3 * value:#.2g} ms".replace(". ms", " ms")
    )


def rows_scan(lines: Sequence[Line]) -> dict[str, str]:
    """The largest table whose pairs were counted."""
    line = max((x for x in lines if x["sweep"] == "rows"), key=lambda x: x["point"])
    return {"seconds": f"{line['seconds']:.1f}", "peak": f"{line['peak_mb']:.0f}"}


def shapes(lines: Sequence[Line]) -> str:
    """Whole releases: CPU seconds and peak memory, beside the forecast of both."""
    runs = newest(lines, "table", "delta")
    rows = []
    for line in sorted(runs, key=lambda x: (x["delta"] != "0", x["table"].lower())):
        own = [f"{line['total']:.1f}", f"{line['forecast_seconds']:.0f}"]
        memory = [f"{line['peak'] / 1e9:.2f}", f"{line['forecast_peak'] / 1e9:.2f}"]
        rows.append([line["table"], line["delta"], f"{line['asked']:,}", str(line["tables"]), *own, *memory])
    head = ["table", "delta", "pairs asked for", "measured", "CPU s", "forecast", "GB", "forecast"]
    return markdown(head, rows)


def shapes_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """CPU seconds and GB of the releases without a delta."""
    runs = {x["table"]: x for x in lines if x["delta"] == "0"}
    return {
        key: text
        for name, x in runs.items()
        for slug in [name.replace(" ", "-").replace(",", "")]
        for key, text in ((slug, f"{x['total']:.1f}"), (f"{slug}-gb", f"{x['peak'] / 1e9:.2f}"))
    }


BANDS = {"seconds": ("s", 2.0, 0), "bytes": ("bytes", 1.5, 2**20)}


def compared(line: Line, what: str) -> tuple[float, float] | None:
    """Forecast and measured; None where they are not compared."""
    short, _, least = BANDS[what]
    both = line[f"forecast_{short}"], line.get(f"measured_{short}", 0)
    return both if both[1] > least else None


def ended(lines: Sequence[Line]) -> list[Line]:
    """The last line of each program that ended."""
    found = newest([line for line in lines if line.get("program")], "program")
    return [line for line in found if "measured_s" in line]


def within(lines: Sequence[Line], what: str) -> tuple[int, int]:
    """How many forecasts are within their band, and how many there are."""
    ratios = [both[0] / both[1] for line in lines if (both := compared(line, what))]
    band = BANDS[what][1]
    return sum(1 / band <= ratio <= band for ratio in ratios), len(ratios)


def forecasts(lines: Sequence[Line]) -> dict[str, str]:
    """How many forecasts are within their bands."""
    found = ended(lines)
    return {what: "{} of {}".format(*within(found, what)) for what in BANDS}


def rows(lines: Sequence[Line]) -> str:
    """Ten million rows to a file."""
    found = []
    for line in newest(lines, "case", "method", "on", "rows"):
        if line["rows"] != 10_000_000:
            continue
        name = f"{line['case']}, {line['attributes']} attributes"
        peak = f"{line['peak_mb']:.0f} ({line['peak_before_mb']:.0f})"
        apart = [line["mean_total_variation"], line["mean_expected"]]
        near = f"{_short(apart[0])} ({apart[1]:.4f})"
        cells = [f"{line['seconds']:.0f}", f"{line['cpu_seconds']:.1f}", peak, near]
        found.append([name, line["method"], *cells])
    head = ["model", "`method`", "seconds", "of CPU", "peak MB (before)"]
    return markdown([*head, "mean total variation of cliques (expected of independent rows)"], found)


def _short(value: float) -> str:
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.1e}"


def rows_device(lines: Sequence[Line]) -> str:
    """A million rows in memory, drawn on the host and through JAX."""
    found = [
        [
            line["case"],
            line["on"],
            *(f"{line[key]:.1f}" for key in ("seconds", "later_seconds")),
            f"{line['later_cpu_seconds']:.2f}",
        ]
        for line in newest(lines, "case", "method", "on", "rows")
        if line["rows"] == 1_000_000
    ]
    head = ["model", "drawn on", "first call, seconds", "quickest of five more", "its seconds of CPU"]
    return markdown(head, found)


PARTS = ("evidence", "singles", "pairs")


def networks(lines: Sequence[Line]) -> str:
    """Real networks beside pyagrum: seconds of both, and the largest difference of an answer."""
    found = []
    for line in newest(lines, "network"):
        if "seconds" not in line:
            continue
        sides = line["seconds"], line["peer_seconds"]
        cells = [" / ".join(f"{side[part]:.3f}" for side in sides) for part in PARTS]
        worst = f"{max(line['difference'].values()):.1e}"
        found.append([line["network"], str(line["variables"]), *cells, worst])
    return markdown(["network", "variables", "evidence", "singles", "pairs", "largest difference"], found)


def networks_made(lines: Sequence[Line]) -> dict[str, str]:
    """How many generated networks were solved, and the largest difference to the peer."""
    last = newest(lines, "network")
    solved = [line for line in last if "seconds" in line["ours"]]
    both = [line for line in solved if "difference" in line]
    peer = [line for line in last if "seconds" in line.get("peer", {})]
    worst = max(max(line["difference"].values()) for line in both)
    ratios = [
        sum(line["ours"]["seconds"][part] for part in PARTS[1:])
        / sum(line["peer"]["seconds"][part] for part in PARTS[1:])
        for line in both
    ]
    return {
        "all": str(len(last)),
        "solved": str(len(solved)),
        "refused": str(sum("refused" in line["ours"] for line in last)),
        "killed": str(sum("failed" in line["ours"] for line in last)),
        "peer": str(len(peer)),
        "difference": f"{worst:.0e}",
        "ratio": f"{statistics.median(ratios):.2f}",
        "least": f"{min(ratios):.2f}",
        "most": f"{max(ratios):.1f}",
    }


def device(lines: Sequence[Line]) -> dict[str, str]:
    """Programs on a card: times beside the processor, NumPy and the peer."""
    newest_of = {(line["program"], line["side"]): line for line in lines if "failed" not in line}
    rows = []
    for program in dict.fromkeys(line["program"] for line in lines):
        card, cpu, peer = (newest_of.get((program, side), {}) for side in ("device", "cpu", "mbi"))
        if "kernels" in card or "rates" in card or not (card or cpu or peer):
            continue
        error = f"{card['error']:.1g} ({card['allowed']:.1g})" if "error" in card else "-"
        counted = f"{card['launches']:,}, {seconds(card['busy_s'])}" if "launches" in card else "-"
        rows.append(
            [
                program,
                *_first_and_later(card),
                *_first_and_later(cpu),
                seconds(card.get("numpy_s")),
                *(seconds(peer.get(key)) for key in ("cold_s", "warm_s")),
                counted,
                ", ".join(sorted(card.get("status", []))).lower() or "-",
                error,
            ]
        )
    head = [
        "program",
        "card, first",
        "later",
        "its processors, first",
        "later",
        "NumPy",
        "mbi, first",
        "later",
    ]
    return {
        "programs": markdown([*head, "launches, busy", "ended", "error (allowed)"], rows),
        "rates": _rates(newest_of["rates", "device"]["rates"]),
        "card": newest_of["rates", "device"]["device"],
    }


def _first_and_later(line: Line) -> list[str]:
    return [seconds(line.get(key)) for key in ("first_s", "later_s")]


def _rates(found: Line) -> str:
    return markdown(["rate", "seconds"], [[name, f"{value:.3g}"] for name, value in found.items()])
