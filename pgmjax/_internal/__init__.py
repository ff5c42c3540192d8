"""General helpers, the lowest layer of the package.

`checks` has argument checks and the base exception, `files` new folders and JSON files, `formats` the names
and versions that files carry, `memory` the available memory, `progress` progress bars, `html` tables for
notebooks. `device` is what programs run on, `jit` compiles them, `sharding` distributes work over devices.
"""
