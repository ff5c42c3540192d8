"""Maximum-entropy estimation from a history of noisy answers.

The entry point is `fit`: one valid distribution from all answers. `dual` is the function that is maximised,
with its features and penalty. `ascent` maximises it, with curvature from the Markov chains of `chains` where
inference is expensive or impossible.
"""
