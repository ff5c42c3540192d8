"""Privacy accounting: events, Renyi divergence, loss distributions, zCDP, composition, calibration."""

from pgmjax._internal.moved import names_of

__getattr__ = names_of("privacy.accounting", __path__)
