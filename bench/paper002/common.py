"""What the experiments of this folder share: the graph."""

from __future__ import annotations

import gzip
import os
import pathlib

import numpy as np

VERTICES = (577, 1154, 1731, 2308, 2885, 3462, 4039)


def facebook_edges() -> np.ndarray:
    """Return the edges of the Facebook graph [edges, 2], vertices 0..4038."""
    folder = os.environ.get("PGMJAX_DATA")
    if not folder:
        raise SystemExit("PGMJAX_DATA must name the folder that holds facebook/facebook_combined.txt.gz")
    with gzip.open(pathlib.Path(folder) / "facebook" / "facebook_combined.txt.gz", "rt") as file:
        return np.loadtxt(file, dtype=np.int64)
