"""One table per clique, as a JAX pytree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax

from pgmjax.data.domain import Clique, first_holding, marginal_of, same_attributes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class CliqueVector(Mapping[Clique, Any]):
    """Tables aligned with cliques: potentials, marginals or gradients.

    The cliques are static and the tables are leaves, so it works with `jit`, `grad`, `vmap` and
    `tree.map`. As a mapping, it returns the table of a clique with the axes in the order of the key.

    Attributes:
        cliques: attribute names of each table's axes.
        tables: one array per clique.

    Example:
        >>> import numpy as np
        >>> vector = CliqueVector((("a", "b"),), (np.zeros((2, 3)),))
        >>> vector["b", "a"].shape
        (3, 2)
    """

    cliques: tuple[Clique, ...] = dataclasses.field(metadata={"static": True})
    tables: tuple[Any, ...]

    def __getitem__(self, clique: Clique) -> Any:
        if isinstance(clique, str):
            raise KeyError(f"{clique!r} is a lone name: write ({clique!r},).")
        for own, table in zip(self.cliques, self.tables, strict=True):
            if len(own) == len(clique) and same_attributes(own, clique):
                return table.transpose([own.index(name) for name in clique])
        raise KeyError(f"no table over {tuple(clique)}; there are tables over {list(self.cliques)}.")

    def __iter__(self) -> Iterator[Clique]:
        return iter(self.cliques)

    def __len__(self) -> int:
        return len(self.cliques)


def marginal_within(vector: CliqueVector, part: Clique) -> Any | None:
    """Return the marginal of some attributes from the first table over all of them; None if there is none."""
    place = first_holding(vector.cliques, part)
    return None if place is None else marginal_of(vector.cliques[place], vector.tables[place], part)


def summed(pairs: Iterable[tuple[Clique, Any]]) -> CliqueVector:
    """Return one table for each set of attributes: tables over the same set are added.

    Args:
        pairs: cliques with their tables; axes are in the order of the first clique over each set.

    Example:
        >>> import numpy as np
        >>> summed([(("a", "b"), np.ones((2, 3))), (("b", "a"), np.ones((3, 2)))])["a", "b"].tolist()
        [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """
    first: dict[frozenset[str], Clique] = {}
    sums: dict[frozenset[str], Any] = {}
    for clique, table in pairs:
        key = frozenset(clique)
        if key in sums:
            sums[key] = sums[key] + table.transpose([clique.index(name) for name in first[key]])
        else:
            first[key], sums[key] = clique, table
    return CliqueVector(tuple(first.values()), tuple(sums.values()))
