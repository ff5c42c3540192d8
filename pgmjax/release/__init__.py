"""Releases: the output of a mechanism, its files and its report.

`release` defines the release object with its model and noisy answers, and one that answers with a trained
model. `run_folder` keeps a run's noisy answers until they are a release. `folder` writes a release to disk
and reads it back, including the Parquet files of `tables`, and models of any kind. `report` builds the HTML
page from `figures` and the sentences of `accuracy` and `statement`. `analysis` makes tables to analyse and
estimates from draws.
"""
