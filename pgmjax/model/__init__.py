"""Fitted models: marginals, answers, conditionals, synthetic rows, files.

- `base`: the interface of all models. `graphical`, `regions`, `mixture`: the three kinds of model.
- `clique_vector`: one table per clique.
- `calibrated`: a graphical model prepared for many queries.
- `rows`: row operations, with `sampling`, `device_sampling` and `row_file`.
- `region_rows`: rows of regions, by steered Markov chains.
- `compression`: a domain with rare values merged.
- `io`: models on disk; `load` reads one of any kind.
"""

from typing import TYPE_CHECKING, Any

from pgmjax._internal import migration
from pgmjax.model.base import Model

if TYPE_CHECKING:
    from pgmjax.model.calibrated import CalibratedModel
    from pgmjax.model.mixture import MixtureModel
    from pgmjax.model.regions import RegionModel

__all__ = ["CalibratedModel", "MixtureModel", "Model", "RegionModel"]


def _later() -> dict[str, Any]:
    """Return the models that an exact fit does without."""
    from pgmjax.model.calibrated import CalibratedModel
    from pgmjax.model.mixture import MixtureModel
    from pgmjax.model.regions import RegionModel

    return {"CalibratedModel": CalibratedModel, "MixtureModel": MixtureModel, "RegionModel": RegionModel}


migration.answer(globals(), _later)
