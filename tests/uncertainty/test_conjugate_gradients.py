"""Conjugate gradients on a singular system."""

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.uncertainty.laplace import conjugate_gradients


def test_conjugate_gradients_solve_a_singular_system():
    generator = np.random.default_rng(0)
    root = generator.normal(size=(6, 4))
    with jax.enable_x64(True):
        matrix = jnp.asarray(root @ root.T)
        right = matrix @ jnp.asarray(generator.normal(size=6))

        def apply(step):
            both = matrix @ jnp.append(step[0], step[1])
            return both[:-1], both[-1]

        (found, last), rest = conjugate_gradients(apply, (right[:-1], right[-1]))
        left = matrix @ jnp.append(found, last) - right
    assert np.linalg.norm(left) <= 1e-6 * np.linalg.norm(right) and float(rest) <= 1e-6
