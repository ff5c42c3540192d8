"""Drawings with matplotlib, of numbers that are given.

`marginals` draws marginals as bars and heat maps, `tree` a junction tree, `axes` what both are made of.
The numbers come from the `views` of models and fits, and from the figures of a release.
"""
