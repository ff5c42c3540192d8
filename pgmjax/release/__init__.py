"""Releases: what a mechanism hands out, on disk and in its report.

`release` is the object with its model and noisy answers, `trained` one that answers by a trained model.
`folder` writes a release to disk and reads it back, with the Parquet files of `tables`; `load` reads models
of any kind. `report` makes the HTML page out of `figures` and the sentences of `text`.
"""

from pgmjax._internal.moved import serve_old_names

serve_old_names(__name__)
