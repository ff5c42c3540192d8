"""Online sessions: queries answered from past answers or by a new charge, under one budget.

The entry point is `session.Session`. `requirement` is the accuracy required of an answer and how it is met;
`costs` is the cost of answers, cell by cell. `log` keeps the session's records in a ledger, and `state` is
derived from them, identically in every process.
"""
