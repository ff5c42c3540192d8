"""Online sessions: queries answered from past answers or by a new charge, under one budget.

`session.Session` is the way in. `demand` is what an analyst asks of an answer, and what meets it; `costs`
is what answers cost, cell by cell. `log` keeps the session's records in a ledger, and `state` is what
follows from them, the same in every process.
"""

from pgmjax._internal.moved import serve_old_names

serve_old_names(__name__)
