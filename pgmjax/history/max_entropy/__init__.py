"""Maximum-entropy estimation from a history of noisy answers.

`fit` is the way in: one valid distribution from all answers. `dual` is the function that is maximised, with
its features and its penalty. `ascent` maximises it with exact inference; `newton` does where inference is
dear or impossible, with curvature from the Markov chains of `chains`.
"""

from pgmjax._internal.moved import serve_old_names

serve_old_names(__name__)
