"""Noisy answers, the distributions of their noise, and the total that they tell."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("measurements", __path__)
