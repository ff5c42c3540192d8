"""Queries as training examples: which ones, how they are encoded, what is learned, how far it errs.

Everything here is chosen before data is looked at, or is made of noisy answers that were released.
`mechanisms.MLDP` measures the training queries and trains; a `Predictor` answers fresh queries.
"""
