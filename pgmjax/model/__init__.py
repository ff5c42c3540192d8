"""Fitted models: marginals, answers, conditionals, synthetic rows, files."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("model", __path__)
