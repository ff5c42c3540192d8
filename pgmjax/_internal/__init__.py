"""Helpers that know nothing of the field, below all other packages.

Argument checks are in `checks`, the base of all exceptions in `errors`, new folders and JSON files in
`files`, the memory at hand in `memory`, progress bars in `progress`, tables for notebooks in `html`. `jit`
compiles programs, `sharding` shares work between devices, `worker` runs one worker thread beside its caller.
`moved` serves the module paths of 0.1.0.
"""
