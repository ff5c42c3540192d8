"""Draw what `inference.py` measured: `python bench/paper003/inference_plots.py`."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness


def panel(axis, lines, x, y, label, title):
    """Curves of one panel, a curve for every label."""
    for name in sorted({label(line) for line in lines}):
        points = sorted((line[x], line[y]) for line in lines if label(line) == name)
        axis.plot(*zip(*points, strict=True), marker="o", label=name)
    axis.set(xscale="log", yscale="log", xlabel=x, ylabel=y, title=title)
    harness.legend_below(axis)


def draw(lines, canvas):
    """One panel a part, with processor seconds, which a shared machine disturbs least."""
    axes = canvas.subplots(2, 3)
    of = {
        part: [line for line in lines if line["part"] == part] for part in ("blue", "size", "beta", "error")
    }
    blue = [{**line, "answers": line["m"]} for line in of["blue"]]
    panel(
        axes[0, 0],
        blue,
        "answers",
        "cpu_seconds",
        lambda b: "m = 2 n" if b["m"] == 2 * b["n"] else "n = 100",
        "BLUE",
    )
    size = [line for line in of["size"] if line["n"] == 100]
    noise = {True: "continuous", False: "discrete"}
    panel(
        axes[0, 1],
        size,
        "m",
        "cpu_seconds",
        lambda s: f"{s['method']}, {noise[s['continuous']]}",
        "distribution of an answer",
    )
    beta = [line for line in of["beta"] if "method" in line]
    panel(axes[0, 2], beta, "beta", "cpu_seconds", lambda b: b["method"], "distribution of an answer")
    panel(axes[1, 0], of["error"], "draws", "root_error", lambda _: "measured", "Monte Carlo")
    panel(axes[1, 0], of["error"], "draws", "root_bound", lambda _: "the paper's bound", "Monte Carlo")
    panel(axes[1, 1], of["error"], "draws", "cpu_seconds", lambda _: "200 noises", "Monte Carlo")
    for distribution in ("laplace", "gaussian"):
        some = [line for line in lines if line["part"] == "coverage" and line["law"] == distribution]
        axes[1, 2].scatter(
            [line["scale"] for line in some], [line["covered"] for line in some], label=distribution
        )
    axes[1, 2].axhline(0.95, color="grey")
    axes[1, 2].set(xscale="log", xlabel="scale", ylabel="covered", title="95 % intervals")
    axes[1, 2].legend()


if __name__ == "__main__":
    name = "paper003-inference"
    kept = harness.read(harness.RESULTS / f"{name}.jsonl")
    harness.figure(name, lambda canvas: draw(kept, canvas), (15, 9))
