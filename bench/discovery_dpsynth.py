"""google/dpsynth on raw tables: `discovery.py` starts this under the interpreter of dpsynth's environment.

    .../dpsynth/bin/python bench/discovery_dpsynth.py < request.json

The request names a CSV file, its columns, and jobs; a line of JSON is printed after each job. Everything is
at its default: MST, 32 bins between quantiles, a tenth of rho for them. It needs the public bounds of
numbers, and gets times as whole hours. Its rows are written twice: each number in the middle of its bin,
which is its default, and (beside it, `.sample.csv`) drawn within its bin, which costs no privacy.

dpsynth is on no registry. With Python 3.12 and a checkout of its public repository (cf8075f was run):

    pip install absl-py attrs pandas "pydantic>=2" pyyaml "jax[cpu]==0.11.0" more-itertools networkx scipy
    pip install tqdm dp-accounting==0.6.0 mbi==2.0.0 etils importlib_resources fsspec
    pip install --no-deps CHECKOUT
"""

import dataclasses
import os
import pathlib
import warnings

warnings.filterwarnings("ignore")
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import discovery_peer  # noqa: E402
import dp_accounting  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from dpsynth import data_generation_v3 as generation  # noqa: E402
from dpsynth import domain  # noqa: E402


def attributes(columns):
    """Return its description of each column."""
    result = {}
    for name, about in columns.items():
        if about["kind"] == "text":
            result[name] = domain.CategoricalAttribute(about["categories"])
        else:
            kind = "float" if about["kind"] == "float" else "int"
            result[name] = domain.NumericalAttribute(about["low"], about["high"], dtype=kind)
    return result


def whole_hours(times):
    """Return times as whole hours since 1970."""
    return (times - pd.Timestamp(0)) // pd.Timedelta(hours=1)


def write(rows, columns, path):
    """Write rows, hours as times again."""
    for name, about in columns.items():
        if about["kind"] == "time":
            rows[name] = pd.Timestamp(0) + pd.to_timedelta(rows[name].astype(float), unit="h")
    rows.to_csv(path, index=False)


def calibrated(config, epsilon, delta):
    """Return the mechanism for the largest rho that converts to at most epsilon.

    Its `calibrate` needs events that dp-accounting 0.6.0, the released one, does not have.
    """
    rho = dp_accounting.calibrate_dp_mechanism(
        dp_accounting.rdp.RdpAccountant,
        dp_accounting.ZCDpEvent,
        epsilon,
        delta,
        dp_accounting.LowerEndpointAndGuess(0.0, 0.1),
        tol=1e-8,
    )
    return config.configure(zcdp_rho=rho, delta=delta)


def job(frame, asked, one):
    """Calibrate, run, and decode both ways."""
    described = attributes(asked["columns"])
    mechanism = calibrated(generation.TabularConfig(domains=described), one["epsilon"], asked["delta"])
    result = mechanism(np.random.default_rng(one["seed"]), frame)
    write(result.synthetic_data.copy(), asked["columns"], one["out"])
    sampled = {
        name: dataclasses.replace(
            codec,
            attribute=dataclasses.replace(codec.attribute, interval_handling="sample")
            if isinstance(codec.attribute, domain.NumericalAttribute)
            else codec.attribute,
        )
        for name, codec in result.codec.columns.items()
    }
    codes = result.discrete_mechanism_result.synthetic_data
    rows = generation.TabularCodec(sampled).decode(
        codes, np.random.default_rng([one["seed"], 1]), list(frame.columns)
    )
    write(rows, asked["columns"], pathlib.Path(one["out"]).with_suffix(".sample.csv"))
    edges = {name: codec.column_measurement.bin_edges for name, codec in result.codec.columns.items()}
    return {"bins": {name: len(edge) + 1 for name, edge in edges.items() if edge is not None}}


def main():
    """Do the jobs of a request."""
    # its programs are compiled anew for each set of bins, until memory maps run out
    discovery_peer.serve(job, whole_hours, after=jax.clear_caches)


if __name__ == "__main__":
    main()
