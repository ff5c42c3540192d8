"""Online sessions: queries answered from past answers or by a new charge, under one budget."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("history.session", __path__)
