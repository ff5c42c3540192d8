"""Plans made on the host: the order of operations, and its cost.

- `structure`: a model without names. `junction_tree`: elimination orders and their junction trees.
- `contraction`: a path, its cost, and the search for one (`merges` of few tables); `slicing` makes it fit.
- `levels`: many small cliques as one small program. `regions`: approximate inference.
- `forecast`: time, memory, and errors if it is exceeded. `growth`: the cost of one more clique.
- `triangulation`: cliques chosen in turn while the model stays within a number of cells.
"""
