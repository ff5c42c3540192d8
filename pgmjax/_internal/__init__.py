"""General helpers, the lowest layer of the package.

`checks` has argument checks, `errors` the base exception, `files` new folders and JSON files, `formats` the
names and versions that files carry, `memory` the available memory, `progress` progress bars, `html` tables
for notebooks. `jit` compiles programs, `sharding` distributes work over devices, `worker` runs one worker
thread.
"""
