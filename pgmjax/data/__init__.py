"""Tables: their public description, their records, and exact counts.

- `domain` with its cliques, `attribute`: the public description. `encoding` turns raw values into codes.
- `dataset`: a private table and its exact marginals, counted in one pass by `counting`.
- `sources`, `files`, `arrow`: records from memory, files and data frames, as batches of codes.
- `text_file`: the text of a file, and where its columns stand.
- `population`: which records count, and what a cell counts with its own, by what is public alone.
- `relation`: the neighbouring relation of a privacy guarantee. `fingerprint`: keyed digests of tables.
- `ratings`: sparse ratings of items and the similarity of records. `demo`: a real table for experiments.
"""
