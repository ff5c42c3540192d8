"""Plans made on the host: the order of operations, and its cost.

- `structure`: a model without names. `junction_tree`: elimination orders and their junction trees.
- `contraction` plans a contraction as a `path`, by the methods of `search`; `slicing` makes it fit in memory.
- `level_tree` and `levels`: many small cliques as one small program. `regions`: approximate inference.
- `cost` and `forecast`: work, memory, and errors if it is exceeded. `rates`: the time of a unit of work.
  `growth`: the cost of one more clique.
- `triangulation`: cliques chosen in turn while the model stays within a number of cells.
"""
