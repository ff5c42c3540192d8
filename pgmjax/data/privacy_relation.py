"""The neighbouring relation, under the name by which privacy code knows it."""

from pgmjax.data.relation import Relation

__all__ = ["Relation"]
