"""Plans made on the host: the order of the work, and what it will cost.

- `structure`: a model without names. `junction_tree`: elimination orders and the trees they make.
- `contraction` plans a contraction as a `path`, by the methods of `search`; `slicing` makes it fit in memory.
- `level_tree` and `levels`: many small cliques as one small program. `regions`: approximate inference.
- `cost` and `forecast`: work, memory, and a refusal with figures. `growth`: the cost of one more clique.
"""
