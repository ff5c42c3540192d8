"""Make the library importable from the checkout that a script lies in, installed or not.

Import this first. The checkout always wins over an installed copy, so that the commit written
beside a figure is the code that was measured. `kernels/` at the root is `pgmjax.kernels`, which an
installation maps by its package data; here a finder does.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType

ROOT = pathlib.Path(__file__).resolve().parent.parent


class _Kernels(importlib.abc.MetaPathFinder):
    """Finds `pgmjax.kernels` in the folder at the root."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Say where the package is; None for every other name."""
        if fullname != "pgmjax.kernels":
            return None
        folder = ROOT / "kernels"
        return importlib.util.spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


if str(ROOT) not in sys.path[:1]:
    sys.path.insert(0, str(ROOT))
sys.meta_path.append(_Kernels())
