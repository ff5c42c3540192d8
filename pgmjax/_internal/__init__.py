"""Helpers that know nothing of the field: argument checks, compiled functions, files, progress, threads."""
