"""Matplotlib drawings of given numbers.

`marginals` draws marginals as bars and heat maps, `tree` draws a junction tree, `axes` has the common parts.
It is called by the `views` of models and fits, for notebooks.
"""
