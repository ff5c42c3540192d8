"""Drawings with matplotlib, of numbers that are given."""
