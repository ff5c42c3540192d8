"""Maximum-entropy estimation from a history of noisy answers."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("history.max_entropy", __path__)
