"""Draw the picture of README: noisy counts of a table of diamonds beside the model fitted to them.

python docs/examples/first_picture.py docs/images/first-model.png     (needs the extras demo and report)
"""

from __future__ import annotations

import sys

import pgmjax as pj
from pgmjax.data import demo


def main(path: str) -> None:
    """Measure, fit and draw; the noise is seeded so that the picture repeats."""
    data = demo.load()
    workload = pj.Workload.of_marginals([("cut", "color"), ("color", "clarity"), ("cut", "price")])
    mechanism = pj.mechanisms.Marginals(
        epsilon="1/20",
        relation=pj.Relation.ADD_REMOVE,
        backend=pj.privacy.SeededBackend(0, insecure=True),
    )
    release = mechanism.run(data, workload)
    shown = [("clarity",), ("cut", "price")]
    axes = release.model.plot_marginals(shown, measurements=release.measurements)
    next(iter(axes.values())).figure.savefig(path, dpi=130, facecolor="white")


if __name__ == "__main__":
    main(sys.argv[1])
