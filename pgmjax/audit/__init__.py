"""Audits of privacy: exact channels, record and replay, goodness of fit, black-box lower bounds."""
