"""The names and arguments that users of other packages know, and what stands for them (docs/migration.md).

An unknown name is the usual AttributeError and a wrong argument the usual TypeError, with what to write here.
"""

from __future__ import annotations

import abc
import dis
import functools
import inspect
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pgmjax._internal import checks

_COUNTS = "marginal(clique) of a model, and marginals([clique]) of a table"
_MEAN = (
    "answer(query) of a model, or measure([query], epsilons=[0.1]) of a PrivateTable, for "
    "queries.kronecker({name: queries.mean([9, 26.5, ...])}), the sum over the records of a number for each "
    "cell; divided by the number of records it is the mean"
)
_NO_SEED = "noise that is released has no seed; for experiments alone, which protect nobody, {}"
REGISTERED = (
    'ledger.register("people", epsilon=1, relation="add-remove", domain=domain, '
    "digest=ledger.digest_of(data)), with data = Dataset.from_frame(domain, frame)"
)
READS = "Dataset.read(path, domain) reads a table, and Domain.read(path) a domain"
MBI: Mapping[str, str] = {
    "Factor": "an array: model.marginal(clique)",
    "FactoredInference": "Estimator().fit(domain, measurements, total)",
    "MarkovRandomField": "GraphicalModel",
    "MirrorDescent": "Estimator(solver='mirror_descent')",
    "mirror_descent": "Estimator(solver='mirror_descent')",
    "estimate": "Estimator().fit(domain, measurements, total)",
    "fromdict": "Domain({name: size})",
    "config": "sizes",
    "attrs": "attributes",
    "canonical": "project(clique)",
    "marginalize": "project(clique) of the other attributes",
    "supports": "set(clique) <= set(domain)",
    "load": "load(folder) of what was saved, or Dataset.read(path, domain) of a table",
    "synthetic": "sample(rows, seed) of a model",
    "synthetic_data": "sample(rows, seed) of a model",
    "project": _COUNTS,
    "datavector": f"{_COUNTS}, then reshape(-1)",
    "compress": "recode(domain, codes), or Compression.forward(measurement)",
    "decompress": "Compression.backward(model), then sample",
    "noisy_measurement": "values",
    "krondot": "answer(query)",
    "calculate_many_marginals": "calibrate().marginals(cliques)",
    "cliques": "potentials.cliques",
}
"""What stands here for a name of mbi."""
_OTHERS: Mapping[str, str] = {
    "marginal": _COUNTS,
    "marginals": "calibrate().marginals(cliques) of a model",
    "sample": "sample(rows, seed) of a model",
    "model": "release.model",
    "generate": "fit(frame, domain), then sample(n)",
    "transform": "fit(frame, domain), then sample(n)",
    "fit_transform": "fit(frame, domain), then sample(n)",
    "fit": "Estimator().fit(domain, measurements) of noisy answers, Synthesizer(epsilon=..., relation=...)"
    ".fit(frame, domain) of a table, or run(data, workload) of a mechanism",
    "synthesize": "Synthesizer(epsilon=..., relation=...).fit(frame, domain)",
    "query": "query(text) of a Synthesizer, or pgmjax query on the command line",
    "read_csv": "Dataset.read(path, domain)",
    "from_frame": "from_public_data(frame), if anybody may see the table",
    "columns": "attributes of a domain",
    "encode": "Dataset.from_frame(domain, frame)",
    "predict": "query(text) of a Synthesizer, or answer(query) of a model",
    "head": "sample(5) of a model or a Synthesizer",
    "to_csv": "sample_to(path, rows) of a model, or sample(n).to_csv(path) of a Synthesizer",
    "value_counts": _COUNTS,
    "epsilon": "release.spent",
    "error_bars": "uncertainty.error_bars(model, measurements, queries), or answers() of a saved release",
    "tables": "tables(20) of a release",
    "create": "Synthesizer(epsilon=1, relation='add-remove', mechanism='mst')",
    "fit_sample": "fit(frame, domain), then sample(n)",
    "evaluate": "report(path), or pgmjax mechanisms compare",
    "mean": _MEAN,
    "sum": _MEAN,
    "histogram": "queries.marginal(names)",
    "quantile": "estimate(function, draws) of a release",
    "median": "estimate(function, draws) of a release",
    "BudgetAccountant": "privacy.Ledger, or privacy.Budget for one run",
    "Context": "privacy.PrivateTable(data, relation, budget)",
    "enable_features": "not needed",
    **dict.fromkeys(
        ("Laplace", "LaplaceMechanism", "laplace_mechanism", "make_laplace"),
        "noise by PrivateTable.measure([query], epsilons=[0.1])",
    ),
    **dict.fromkeys(
        ("GaussianMechanism", "gaussian_mechanism", "make_gaussian"),
        "noise by PrivateTable.measure([query], rhos=[0.01])",
    ),
    "mst": "mechanisms.MST",
    "aim": "mechanisms.AIM",
    **dict.fromkeys(("from_csv", "from_parquet", "read_parquet", "from_file"), "Dataset.read(path, domain)"),
    **dict.fromkeys(("from_pandas", "from_polars", "from_dataframe"), "Dataset.from_frame(domain, frame)"),
    **dict.fromkeys(("from_yaml", "from_json"), "Domain.read(path)"),
    **dict.fromkeys(("all_pairs", "pairs", "two_way"), "Workload.all_kway(domain, 2)"),
    **dict.fromkeys(("epsilon_spent", "spent"), "release.spent"),
    **dict.fromkeys(("to_frame", "to_dataframe"), "pandas.DataFrame(domain.decode(model.sample(rows)))"),
    "ledger": "privacy.Ledger",
    **{name: f"a package by itself: from pgmjax import {name}" for name in ("audit", "strategies", "sweeps")},
    **{name: f"history.builders.{name}" for name in ("equals", "between", "is_in")},
    "parse": "history.builders.equals('sex', 'F').query(domain), or Synthesizer.query(text)",
    "average": _MEAN,
    "variance": "queries.moments",
    "perturb": "run(data, workload) of a mechanisms.RandomizedResponse",
}
"""What stands here for a name that one may expect."""
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "eps": ("epsilon",),
    "iters": ("max_steps",),
    "iterations": ("max_steps",),
    "max_iter": ("max_steps",),
    "epochs": ("max_steps",),
    "sigma": ("stddev",),
    "std": ("stddev",),
    "scale": ("stddev",),
    "noise_scale": ("stddev",),
    "weight": ("stddev",),
    "counts": ("values",),
    "attributes": ("clique",),
    "n": ("rows",),
    "n_samples": ("rows", "n"),
    "num_rows": ("rows", "n"),
    "rows": ("n",),
    "size": ("rows", "n"),
    "count": ("rows", "n"),
    "known_total": ("total",),
    **dict.fromkeys(("df", "dataframe", "table"), ("frame", "data")),
    **dict.fromkeys(("file", "filename", "file_path"), ("path", "folder")),
    "metric": ("loss",),
    "epsilon": ("cap", "epsilons"),
    "rho": ("rhos",),
    "budget": ("epsilon", "cap"),
    "categorical_columns": ("domain",),
    "continuous_columns": ("domain",),
    **dict.fromkeys(("schema", "metadata"), ("domain",)),
    "preprocessor_eps": ("discover",),
    "columns": ("clique", "entries"),
    "verbose": ("progress", "show_progress"),
    "lr": ("solver",),
    "learning_rate": ("solver",),
    "optimizer": ("solver",),
    "precision": ("dtype",),
    "seed": ("insecure_seed", "backend"),
    "random_state": ("insecure_seed", "backend", "seed"),
    "max_model_size": ("max_cells",),
    "rounds": ("mechanism",),
    "degree": ("mechanism",),
    "T": ("rounds",),
}
"""The arguments here for one that one may expect: the first of them that a class has."""
_PLACES_OF_ARGUMENTS: Mapping[str, str] = {
    "unit": "it belongs to the table, as in Dataset.from_frame(domain, frame, unit=...), or to a Synthesizer",
    "max_records": "it stands in the unit, unit=Unit('person_id', 4)",
    "backend": "it is given where a mechanism, a Budget's PrivateTable or a Session is made",
    **dict.fromkeys(
        ("epsilon", "delta", "relation"), "it is given where a mechanism, a Synthesizer or a Budget is made"
    ),
    **dict.fromkeys(("insecure_seed", "mechanism"), "it is given where the Synthesizer is made"),
    "Estimator(device)": "JAX chooses the device, and devices is how many share a fit",
    **dict.fromkeys(
        (f"{n}(rho)" for n in ("Marginals", "MST", "AIM", "HDMM", "MWEM", "Synthesizer")),
        "a budget is epsilon and delta, which privacy.epsilon_of(rho, delta) finds",
    ),
    **dict.fromkeys(
        ("Estimator(seed)", "Estimator(random_state)"),
        "a fit draws nothing, and sample(rows, seed) of its model has one",
    ),
    **dict.fromkeys(
        (f"{n}(max_model_size)" for n in ("AIM", "BatchAIM", "MST", "Synthesizer")),
        "here it is max_cells, which counts cells of 8 bytes: 80 MB are 10_000_000",
    ),
    **dict.fromkeys(
        (f"Ledger.register({n})" for n in ("data", "table", "frame")),
        "the table is given by digest=ledger.digest_of(data)",
    ),
    "Ledger.create(epsilon)": f"the cap of an account is given to {REGISTERED}",
    "Synthesizer(random_state)": _NO_SEED.format("insecure_seed=0"),
    "Synthesizer(seed)": _NO_SEED.format("insecure_seed=0"),
    **dict.fromkeys(
        (f"{n}(noise)" for n in ("Marginals", "MST", "AIM", "HDMM", "Synthesizer")),
        "a delta above 0 makes the noise Gaussian, and none makes it Laplace",
    ),
    **dict.fromkeys(
        ("domain", "frame", "discover", "workload", "ledger", "metadata"),
        "it is given to fit(frame, domain) of a Synthesizer, or to run(data, workload) of a mechanism",
    ),
    **dict.fromkeys(("verbose", "progress"), "terminals and notebooks show progress by themselves"),
    **dict.fromkeys(("epochs", "batch_size", "iters", "iterations"), "there are no such steps to choose"),
    **dict.fromkeys(("constraints", "total", "measurements"), "it is given to Estimator().fit"),
    **dict.fromkeys(
        ("sep", "delimiter"),
        "leave it out, the separator of a table is found by the names of the domain",
    ),
    "rows_outside": "it is given to Dataset.from_frame or Dataset.read, for the run of a mechanism; in a "
    "domain clip: true, other: true or missing: true of an entry count what lies outside it",
    **{
        f"{n}.sample(decode)": "codes become values by pandas.DataFrame(domain.decode(rows))"
        for n in ("GraphicalModel", "RegionModel", "MixtureModel")
    },
    "Synthesizer()": "what it is made of is named, and domain and frame go to fit(frame, domain)",
    "nrows": "leave it out, every record of a table is read",
    "usecols": "leave it out, columns that the domain does not name are ignored",
    **dict.fromkeys(
        ("seed", "random_state"),
        _NO_SEED.format("backend=SeededBackend(0, insecure=True) where the mechanism is made"),
    ),
    "Session.ask(level)": "give delta=0.05, how often the answer may be further off: 1 - level",
    "Release.tables(n)": "here it is m, the number of tables",
    "index": "leave it out, no index is written",
}
"""Where an argument is given that a call does not have; of one call it is `call(argument)`."""
_MEANINGS: Mapping[str, str] = {
    "relation": '"add-remove" if the number of records is secret, "replace-one" if it is public',
    "epsilon": "the whole privacy budget, such as 1",
    "workload": "what to ask, such as Workload.all_kway(domain, 2)",
    "stddev": "the standard deviation of the noise really added, in counts; of Laplace noise sqrt(2) scale",
    "total": "the number of records, measured or public",
    "half_width": "half the longest interval that will do, in records, such as 20",
    "max_records": "how many records of one unit count, such as 4",
    "mechanisms.compare(records)": "about how many records there are, a public number, such as 10_000",
    "MaxEntropy.fit(total)": "the number of records, public or estimated",
    "cap": "the whole epsilon, such as 1; with a delta also unit='renyi'",
    "domain": "what values each column has: Domain.read('people.yaml') or Domain({...}), never off the table",
    "discover": "the share of epsilon that finds the domain, such as 0.1",
    "loss": "'l2' or 'l1'",
    "mechanism": "a name, or one with its settings, such as pj.mechanisms.AIM(1, relation, rounds=3)",
    "backend": "leave it out for secure noise; SeededBackend(0, insecure=True) is for experiments",
    "rows_to_arrow(columns)": "the rows model.sample(1000)",
    "Mechanism.run(folder)": "mechanisms.RunFolder('myrun')",
    "distribution": "privacy.DiscreteLaplace(5.0) or privacy.DiscreteGaussian(5.0)",
    "Compression(merged)": 'the codes to merge by attribute, such as {"job": [3, 4]}',
    "posterior(blue)": "BestLinearUnbiased.of(history)",
    "ProductPrior.bought(table)": "privacy.PrivateTable(data, relation, privacy.Budget(1))",
    "DifferentiableFit(answers)": 'the marginals or queries that are wanted, such as [("age", "sex")]',
    "run(grid)": "SweepGrid.read(path)",
    "local.respond(mechanism)": "mechanisms.RandomizedResponse, the one that the collector runs",
}
"""What an argument is, for one who does not know it; of one call it is `call(argument)`."""
_CONSTRUCTIONS: Mapping[str, str] = {
    "Domain": 'Domain({"age": 100, "sex": ["F", "M"]})',
    "Dataset": "Dataset.from_frame(domain, frame), or Dataset.read(path, domain)",
    **dict.fromkeys(
        ("GraphicalModel", "Distribution", "Model", "ModelRows"),
        "Estimator().fit(domain, measurements).model, or GraphicalModel.from_potentials",
    ),
    "LinearMeasurement": 'LinearMeasurement(("age", "sex"), values, stddev=5.0)',
    "Synthesizer": 'Synthesizer(epsilon=1, relation="add-remove")',
    "Unit": 'Unit("person_id", 4)',
    "Workload": 'Workload([("age", "sex"), ("job",)]), or Workload.all_kway(domain, 2)',
    "Session": 'Session.open(ledger, data, cap=1, relation="add-remove")',
    "Mechanism": 'mechanisms.MST(1, "add-remove")',
    **dict.fromkeys(("ModelRows", "NamedMarginals"), "Estimator().fit(domain, measurements).model"),
    "FixedMarginal": 'FixedMarginal(("sex",), [490, 510])',
    "AllowedSet": 'AllowedSet(("age", "driver"), [(0, "no"), (1, "yes")])',
    "FunctionalDependency": 'FunctionalDependency(("zip",), "state", {"02139": "MA", "10001": "NY"})',
    "Attribute": 'Attribute.from_spec("age", {"min": 0, "max": 99})',
    "Release": 'mechanisms.MST(1, "add-remove").run(data, workload), or load(folder) of one that was saved',
    "BestLinearUnbiased": "BestLinearUnbiased.of(history)",
    "KernelRidge": "KernelRidge.fit(history, alpha)",
    "Ledger.register": REGISTERED,
    "queries.kronecker": 'queries.kronecker({"age": queries.prefix()})',
    "queries.marginal": 'queries.marginal(("age", "sex"))',
    "queries.subset": 'queries.subset(["F", "M"])',
    "history.builders.equals": 'history.builders.equals("sex", "F")',
    "KernelPCA": "KernelPCA.of(history, prior, total)",
    "Budget": 'Budget(1), or Budget(1, unit="renyi", delta=1e-6)',
    **{
        f"queries.{n}": f'queries.kronecker({{"age": queries.{n}()}})'
        for n in ("identity", "total", "prefix", "all_ranges")
    },
    "queries.range": 'queries.kronecker({"age": queries.range(18, 64)}), with both ends',
    "queries.point": 'queries.kronecker({"sex": queries.point("F")})',
    "Product": 'queries.Product({"age": queries.prefix()})',
    "History": "History(domain, measurements), or History.from_answers(domain, queries, values, stddev=10)",
    "Workload.of_marginals": 'Workload.of_marginals([("age", "sex")])',
    "OpenTable": "discovery.OpenTable.from_frame(frame), or OpenTable.read(path)",
    "Domain.decode": 'domain.decode({"age": [0, 1]})',
    "Dataset.recode": 'data.recode(domain, {"age": [0, 0, 1]}), with the new code of each old one',
    "Ledger": 'Ledger.create("privacy.ledger"), or Ledger.open of one that is there',
    "AnyRelation": '"add-remove" or "replace-one"',
    "local.respond": "local.respond(domain, record, mechanism), such as "
    'mechanisms.RandomizedResponse(epsilon=2, relation="replace-one", useless="answer")',
    "Synthesizer.query": 'query("sex=Male,age<30")',
    "GraphicalModel.condition": 'condition({"sex": "F"})',
    **dict.fromkeys(
        ("Release.report", "SavedRelease.report"),
        "report(query) for the error of a query, or save(folder) for the page report.html",
    ),
}
"""How an object of a class is made."""
_OF_CLASS: Mapping[tuple[str, str], str] = {
    ("pgmjax.queries", "count"): "queries.kronecker({name: queries.total()})",
    ("Workload", "queries"): "[entry.query for entry in entries]",
    ("Domain", "load"): "Domain.read(path)",
    **{("Domain", n): "Domain.read(path)" for n in ("from_file", "from_path", "open")},
    **{("Workload", n): "Workload.read(path)" for n in ("from_file", "load", "from_json")},
    **{
        (
            "pgmjax.mechanisms",
            n,
        ): "noise by PrivateTable.measure([query], epsilons=[0.1]), or rhos for Gaussian noise"
        for n in ("Gaussian", "Geometric", "Exponential")
    },
    **{("Relation", n): "Relation.ADD_REMOVE, or Relation.REPLACE_ONE" for n in ("BOUNDED", "UNBOUNDED")},
    ("Domain", "from_dict"): "Domain({name: entry})",
    **{
        ("Domain", n): "json.dump(domain.to_dict(), file), and Domain.read(path) reads it"
        for n in ("save", "to_json", "to_yaml", "write", "dump")
    },
    ("Domain", "from_csv"): "from_public_data(frame), if anybody may see the table, or pgmjax domain draft",
    ("Domain", "from_frame"): "from_public_data(frame), if anybody may see the table, or pgmjax domain draft",
    ("Dataset", "shape"): "count() for the number of records, which is private, or domain.shape",
    **{
        ("Dataset", n): "not shown: a table is private, and its columns are attributes of its domain"
        for n in (
            *("head", "tail", "sample", "columns", "dtypes", "describe", "info", "iloc", "loc", "values"),
            "df",
        )
    },
    **{("Fit", n): f"fit.model.{n}(...)" for n in ("marginal", "sample", "answer", "condition", "save")},
    ("Dataset", "to_pandas"): "the frame that it was made of: a dataset gives no record back",
    ("Fit", "params"): "model, loss, gap, status and steps",
    ("Synthesizer", "count"): "query(text)",
    ("Synthesizer", "answer"): "query(text)",
    (
        "pgmjax.queries",
        "KWay",
    ): "Workload.all_kway(domain, 2), or workload.KWay(2) where no domain is known yet",
    **{
        ("pgmjax.mechanisms", n): "dir(pgmjax.mechanisms), or pgmjax mechanisms on the command line"
        for n in ("list", "names", "all", "available")
    },
    **{
        ("pgmjax.adapters", n): "Dataset.from_frame(domain, frame), or Synthesizer.fit(frame, domain)"
        for n in ("pandas", "polars", "from_pandas")
    },
    ("Synthesizer", "domain"): "release.domain",
    ("Synthesizer", "marginal"): "release.model.marginal(clique)",
    ("Synthesizer", "load"): "pgmjax.load(folder), whose model.sample draws rows",
    **{(n, "marginal"): "release.model.marginal(clique)" for n in ("Release", "SavedRelease")},
    **{("SavedRelease", n): f"record[{n!r}]" for n in ("epsilon", "spent", "statement")},
    ("SavedRelease", "domain"): "model.domain",
    ("SavedRelease", "save"): "saved already: copy the folder",
    **{
        ("Domain", n): "attributes, the names in order, or sizes, a dict"
        for n in ("names", "keys", "items", "columns")
    },
    (
        "PrivateTable",
        "count",
    ): "measure([queries.kronecker({name: queries.total()})], epsilons=[0.1]), or public_count() "
    "if the number is public",
    **{
        ("PrivateTable", n): "measure([queries.kronecker({name: queries.mean([9, 26.5, ...])})], "
        "epsilons=[0.1]), with a number for each cell; divided by the number of records it is the mean"
        for n in ("mean", "sum")
    },
    **{
        ("PrivateTable", n): "measure([queries.marginal(names)], epsilons=[0.1])"
        for n in ("marginal", "marginals", "histogram", "value_counts", "query")
    },
    **{("PrivateTable", n): f"budget.{n}" for n in ("spent", "remaining")},
    ("Budget", "epsilon"): "cap, spent and remaining",
    (
        "Fit",
        "converged",
    ): "status in (pgmjax.Status.CONVERGED, pgmjax.Status.WITHIN_NOISE), which both are good; "
    "gap bounds what is missing",
    ("KernelPCA", "fit"): "KernelPCA.of(history, prior, total)",
    ("Session", "from_dataframe"): "Session.open(ledger, data, cap=1, relation=...), with Dataset.from_frame",
    ("Synthesizer", "count_accuracy"): "release.count_accuracy",
    ("Fit", "summary"): "status.text, loss and gap",
    ("Fit", "plot"): "plot_trace(), or model.plot_marginals()",
    ("Fit", "total"): "model.total",
    ("GraphicalModel", "plot"): "plot_marginals() or plot_tree()",
    ("GraphicalModel", "probability"): "marginal(clique) / total",
    ("GraphicalModel", "conditional"): "condition(evidence).marginal(clique)",
    ("GraphicalModel", "fit"): "Estimator().fit(domain, measurements)",
    ("PrivateTable", "data"): "not shown: its answers are, from measure([query], epsilons=[0.1])",
    ("Budget", "spend"): "charge(...), which PrivateTable.measure calls by itself",
    ("Domain", "infer"): "from_public_data(frame), if anybody may see the table, or pgmjax domain draft",
    ("Synthesizer", "estimate"): "release.estimate(function, draws)",
    ("Synthesizer", "error_bars"): "query(text), whose answer has an interval",
    ("GraphicalModel", "query"): "answer('sex=F,age<30')",
    ("SavedRelease", "sample"): "release.model.sample(rows, seed)",
    ("History", "sample"): "MaxEntropy().fit(history, total).sample(rows)",
    ("Synthesizer", "sample_to"): "sample(n).to_csv(path), or release.model.sample_to(path, rows)",
    ("Release", "sample"): "release.model.sample(rows, seed)",
    **{
        (owner, name): found
        for owner in ("Release", "SavedRelease")
        for name, found in {
            "rho": "release.spent.rho",
            "plot": "model.plot_marginals(), or report.html of the folder that save(folder) writes",
            **dict.fromkeys(("count", "total"), "release.model.total"),
            "groupby": "release.mean(name, by=...), or release.report(('sex', 'age')) for counts",
            "sum": "release.mean(name), which is the sum over the number of records",
            **dict.fromkeys(
                ("std", "var", "corr", "cov", "describe", "quantile"),
                "release.estimate(function), or tables(20) to analyse like real ones",
            ),
        }.items()
    },
    **{
        (
            "PerturbedTable",
            name,
        ): "local.answer_conditions(table, ['sex=Male']), or marginal(('sex',)).estimate()"
        for name in ("query", "answer", "sample", "to_frame", "to_pandas", "count")
    },
    **{
        ("Dataset", n): "count(), the number of records, which is private"
        for n in ("num_records", "num_rows", "n_rows", "size", "records")
    },
    **{
        ("Ledger", n): "accounts(), with what each may spend and has spent"
        for n in ("remaining", "spent", "epsilon", "cap", "balance", "budget")
    },
    ("GraphicalModel", "plot_trace"): "plot_trace() of the fit that made it",
    ("OnlineWeights", "answer"): "open(data).answer(query)",
    ("pgmjax.mechanisms", "marginals"): "mechanisms.Marginals",
    ("PerturbedTable", "to_pandas"): "local.marginals_of, which estimates the counts of the table",
    ("Domain", "encode"): "attribute(name).encode(values)",
    ("pgmjax", "load_demo"): "data.demo.load()",
    ("pgmjax", "demo"): "data.demo.load()",
    **{(n, "fit"): "run(data, workload)" for n in ("Marginals", "MST", "AIM", "HDMM", "MWEM", "PrivBayes")},
    **{("Account", n): "cap - spent" for n in ("remaining", "balance", "left")},
    **{
        (
            learner,
            n,
        ): "fit(x, y), which returns what predicts; of noisy answers write predictor, errors = "
        "learn(domain, measurements, learner), and predictor.predict(queries)"
        for learner in ("Ridge", "Linear", "MLP", "EngineLearner", "SklearnLearner")
        for n in ("predict", "predict_proba", "score", "transform", "coef_")
    },
    **{("Predictor", n): "predict(rows)" for n in ("predict_proba", "score", "transform", "fit")},
    **{
        ("History", n): "append(measurement), which returns a new history"
        for n in ("add", "extend", "insert")
    },
    ("History", "answer"): "BestLinearUnbiased.of(history).answer(query)",
    ("History", "fit"): "MaxEntropy().fit(history, total)",
    ("History", "answers"): "values",
    **{
        ("PerturbedTable", n): "local.answer_queries, of a query such as "
        "queries.kronecker({name: queries.mean([1, 2, ...])}) with a number for each cell"
        for n in ("mean", "sum")
    },
    **{("PerturbedTable", n): "local.marginals_of" for n in ("value_counts", "marginal", "marginals")},
}
"""What stands for a name of one class, where it differs from what it is elsewhere."""
_COLUMN: Mapping[str, str] = {
    "Domain": "here it is attribute({0!r}), and domain[{0!r}] its size",
    "Dataset": "a table gives no column back, as it is private; marginals([({!r},)]) are its exact counts, "
    "which are private too",
    "GraphicalModel": "here it is marginal(({!r},))",
}
"""What stands for the name of a column as an attribute of a class with a domain."""


_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("value", "values", "estimates", "estimate", "answer", "count"),
        ("estimate", "estimates", "value", "values"),
    ),
    **dict.fromkeys(
        ("interval", "intervals", "ci", "conf_int", "confidence_interval"),
        ("low", "high", "interval", "intervals"),
    ),
    **dict.fromkeys(
        ("std_errors", "std_error", "stderr", "stddev", "sd", "se", "bse"), ("stddev", "stddevs", "stderr")
    ),
    **dict.fromkeys(("lower", "low"), ("low", "intervals")),
    **dict.fromkeys(("upper", "high"), ("high", "intervals")),
    "left": ("remaining",),
    "accuracy": ("count_accuracy", "release"),
    **dict.fromkeys(("privacy", "guarantee"), ("spent", "statement")),
    "gradient": ("value_and_gradient",),
    **dict.fromkeys(("to_frame", "to_pandas", "to_df"), ("to_dict", "values")),
    **dict.fromkeys(("probabilities", "probability", "pdf"), ("marginal", "log_partition")),
    "sample_from_conditions": ("release",),
}
"""Attributes that stand for one that one may expect of a result: those of them that it has."""
_MOST_LISTED = 16


def missing(owner: str, name: str, known: Iterable[str] = ()) -> AttributeError:
    """Return the error for an attribute that an owner does not have, of those that are known.

    Example:
        >>> missing("Domain", "fromdict")
        AttributeError("Domain has no 'fromdict': here it is Domain({name: size}); see docs/migration.md.")
    """
    page = "; see docs/migration.md" if name in MBI and (owner, name) not in _OF_CLASS else ""
    found = _OF_CLASS.get((owner, name)) or MBI.get(name) or _OTHERS.get(name)
    here = f": here it is {found}{page}" if found else ""
    known = [*known]
    meant = "" if here else checks.did_you_mean(name, known)
    if not here and not meant and 0 < len(known) <= _MOST_LISTED:
        meant = f" It has {', '.join(sorted(known))}."
    return AttributeError(f"{owner} has no {name!r}{here}.{meant}", name=name)


def unknown(module: str, name: str, known: Iterable[str]) -> AttributeError | ImportError:
    """Return the error that a `__getattr__` of a module raises, also for `from module import name`.

    Such an import puts words of Python in the place of an AttributeError, and not of an ImportError.
    """
    homes = [f"pgmjax.{home}.{name}" for home in _homes(name)]
    error = missing(module, name, known)
    if homes and ": here it is" not in str(error):
        error = AttributeError(f"{module} has no {name!r}: here it is {' or '.join(homes)}.", name=name)
    frame = sys._getframe(2)  # that asks the module
    importing = frame.f_code.co_code[max(frame.f_lasti, 0)] == dis.opmap["IMPORT_FROM"]
    found = f"{module}.{name}" in sys.modules  # is being imported, and Python takes it from there
    return ImportError(str(error), name=module) if importing and not found else error


def _homes(name: str) -> list[str]:
    """Return the packages that have a public name; none is imported for that."""
    pages = sorted(pathlib.Path(__file__).parents[1].glob("[a-z]*/__init__.py"))
    listed = ((page.parent.name, page.read_text(encoding="utf-8").partition("__all__")[2]) for page in pages)
    return [home for home, names in listed if f'"{name}"' in names]


def answer(module: dict[str, Any], later: Callable[[], Mapping[str, Any]] | None = None) -> None:
    """Make a module answer what it is asked wrongly with what to write here; it is given its globals.

    These are unknown names, and the wrong arguments of its public functions and classes.

    Args:
        module: its globals.
        later: imports those public names that the module does not have from the start.
    """
    said = module["__name__"]
    functions = [n for n, f in module.items() if n[0] != "_" and getattr(f, "__module__", "") == said]
    known = module.get("__all__", functions)

    def hold(names: Mapping[str, Any]) -> None:
        for name in [each for each in known if each in names]:
            module[name] = answering(names[name], f"{said}.{name}".removeprefix("pgmjax."))

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):  # asked for by Python and its tools
            raise AttributeError(name)
        if later is None or name not in known:
            raise unknown(said, name, known)
        hold(later())
        return module[name]

    hold(module)
    module["__getattr__"] = __getattr__
    module["__dir__"] = lambda: sorted({*module, *known})


def answering(found: Any, said: str) -> Any:
    """Return what a package has under a name, which answers wrong arguments with the right ones.

    A function is replaced where it is defined too, so that there is one of its name.
    """
    if inspect.isclass(found):
        ours = [c for c in found.__mro__ if c.__module__.startswith("pgmjax")]
        for cls in ours:
            if not getattr(cls, "_is_protocol", False):
                _answer_methods(cls, "__init__")
        if not hasattr(found, "__getattr__"):
            found.__getattr__ = of_class  # type: ignore[attr-defined]
    elif inspect.isfunction(found) and found.__code__ is not _ANSWERING:
        home = vars(sys.modules[found.__module__])
        if home.get(found.__name__) == found:
            home[found.__name__] = _answering(found, said)
        return home.get(found.__name__, found)
    return found


def instead(said: str) -> Any:
    """Return a method for what objects of a class are not used for: it says what to write."""

    def refuse(*args: Any) -> NoReturn:
        raise TypeError(said)

    return refuse


def wrong_call(
    called: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any], said: str
) -> TypeError | None:
    """Return the error for arguments that a class or method does not take; None if it takes them.

    Args:
        called: the class, or the method of an object.
        args: the arguments.
        given: those that were named.
        said: its name.

    Example:
        >>> class Walk:
        ...     def __init__(self, *, max_steps=1): pass
        >>> wrong_call(Walk, (), {"iters": 3}, "Walk")
        TypeError("Walk has no argument 'iters': here it is max_steps. Write Walk(*, max_steps=...).")
    """
    signature = inspect.signature(called)
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        known = signature.parameters
        unknown = next((name for name in given if name not in known), None)
        lacking = _lacking(args, [p for n, p in known.items() if p.default is p.empty and n not in given])
        if unknown is not None:
            here = next((name for name in ARGUMENTS.get(unknown, ()) if name in known), "")
            told = _PLACES_OF_ARGUMENTS.get(f"{said}({unknown})") or (
                f"here it is {_explained(here, said)}" if here else _PLACES_OF_ARGUMENTS.get(unknown, "")
            )
            meant = f": {told}." if told else f".{checks.did_you_mean(unknown, known)}"
            wrong = f"{said} has no argument {unknown!r}{meant}"
        elif inspect.isclass(called) and not _CONSTRUCTIONS.get(said, f"{said}(").startswith(f"{said}("):
            wrong = f"{said} is not made by a call of its class."
        elif lacking and "missing" in str(error):
            wrong = f"{said} needs {', '.join(_explained(name, said) for name in lacking)}."
        else:
            why = _PLACES_OF_ARGUMENTS.get(f"{said}()") or error
            wrong = f"{said} cannot be {'made' if isinstance(called, type) else 'called'} so: {why}."
        plain = [
            p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else ...)
            for p in known.values()
        ]
        usual = f"{said}{inspect.Signature(plain)}".replace("Ellipsis", "...")
        if (
            given
            and not args
            and not {*given} & {*known}
            and "Mapping" in str(next(iter(known.values())).annotation)
            and all(isinstance(each, str | int | float) for each in given.values())
        ):
            return TypeError(f"{wrong} Write {said}({dict(given)}).")  # what a mapping takes was named
        return TypeError(f"{wrong} Write {_CONSTRUCTIONS.get(said, usual)}.")
    return None


def _lacking(args: Sequence[Any], needed: Sequence[inspect.Parameter]) -> list[str]:
    """Return the names of the needed arguments that are missing, also before those that came."""
    left, lacking = [*args], []
    for parameter in needed:
        if left and _fits(left[0], str(parameter.annotation)):
            left.pop(0)
        else:
            lacking.append(parameter.name)
    return [parameter.name for parameter in needed[len(args) :]] if left else lacking


def _fits(value: Any, annotation: str) -> bool:
    """Return whether a value, or the first of a list, may be what an annotation of our classes stands for."""
    kinds = {*re.findall(r"\w+", annotation)}
    first = [type(each) for each in value[:1]] if isinstance(value, list | tuple) else []
    came = {cls.__name__ for kind in (type(value), *first) for cls in kind.__mro__}
    return not kinds & {*_CONSTRUCTIONS} or bool(kinds & came) or ("AnyRelation" in kinds and "str" in came)


def _explained(argument: str, said: str) -> str:
    meant = _MEANINGS.get(f"{said}({argument})") or _MEANINGS.get(argument)
    return f"{argument} ({meant})" if meant else argument


def _answering(method: Callable[..., Any], said: str = "") -> Callable[..., Any]:
    """Return a function, or a method of a class, that answers wrong arguments with the right ones.

    It has the globals of the function, by which doctest tells what a module defines.
    """
    error_of = _error_of_call  # as its globals are others

    def call(*args: Any, **given: Any) -> Any:
        try:
            return method(*args, **given)
        except (AttributeError, TypeError) as error:
            wrong = error_of(method, said, error, args, given)
            if wrong is None:
                raise  # of what it does
            raise wrong from None

    names = method.__globals__
    return functools.wraps(method)(types.FunctionType(call.__code__, names, None, None, call.__closure__))


def _error_of_call(
    method: Callable[..., Any], said: str, error: Exception, args: Any, given: Mapping[str, Any]
) -> TypeError | None:
    """Return the error for a wrong call of a function or method that raised one; None if it is its own."""
    owner, _, name = method.__qualname__.rpartition(".")
    known = [*inspect.signature(method).parameters]
    if owner and known[:1] == ["self"] and not any(_is_a(owner, each) for each in args[:1]):
        return TypeError(
            f"{method.__qualname__} was called on the class: make one first, by "
            f"{_CONSTRUCTIONS.get(owner, f'{owner}(...)')}, and call its {name}(...)."
        )
    if (
        not isinstance(error, TypeError)
        or error.__traceback__ is None
        or error.__traceback__.tb_next is not None
    ):
        return _misfit(error, method, args, given)
    if not owner:
        return wrong_call(method, args, given, said)
    made = args[0] if inspect.isclass(args[0]) else type(args[0])
    if name == "__init__":
        return wrong_call(made, args[1:], given, made.__name__)
    return wrong_call(functools.partial(method, args[0]), args[1:], given, f"{made.__name__}.{name}")


def _misfit(
    error: Exception, called: Callable[..., Any], args: Any, given: Mapping[str, Any]
) -> TypeError | None:
    """Return the error for an argument of another kind, if what it lacks was asked of the argument itself."""
    asked = getattr(error, "asked", getattr(error, "obj", None))
    if not isinstance(error, AttributeError) or asked is None:
        return None
    signature = inspect.signature(called)
    for name, value in signature.bind(*args, **given).arguments.items():
        if value is asked and name not in ("self", "cls"):
            kind, said = signature.parameters[name].annotation, called.__qualname__.removesuffix(".__init__")
            if {cls.__name__ for cls in type(value).__mro__} & {*re.findall(r"\w+", str(kind))}:
                return None  # it is of the right kind: somebody else asked too much of it, such as a callback
            others = {cls.__name__ for each in (*args, *given.values()) for cls in type(each).__mro__}
            if {*re.findall(r"\w+", str(kind))} & others & {*_CONSTRUCTIONS}:
                return TypeError(
                    f"{name} is given in another place: write {said}({', '.join(signature.parameters)})."
                )
            known = isinstance(kind, str) and kind != "Any"
            must = f"must be {kind}" if known else f"has to have {error.name!r}"
            found = _MEANINGS.get(f"{said}({name})") or _MEANINGS.get(name)
            meant = f": {found}" if found else ""
            return TypeError(f"{said}: {name} {must}, got {type(value).__name__}{meant}.")
    return None


_ANSWERING = _answering(lambda: None).__code__


def _is_a(owner: str, found: Any) -> bool:
    return any(cls.__qualname__ == owner for cls in type(found).__mro__)


def _answer_methods(cls: type, *others: str) -> None:
    """Make the public methods of a class, and others, answer wrong arguments."""
    for name, member in [*vars(cls).items()]:
        if name.startswith("_") and name not in others:
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(_answering(member.__func__)))
        elif inspect.isfunction(member) and member.__code__ is not _ANSWERING:
            setattr(cls, name, _answering(member))


def of_class(self: Any, name: str) -> Any:
    """Stand for `__getattr__`: answer a name that one may expect of a class, and one of its columns."""
    try:
        return object.__getattribute__(self, name)  # raises what it has raised, also from inside a property
    except AttributeError as error:
        if error.name != name or error.obj is not self or name.startswith("_"):
            raise
    wrong = _unknown_of(self, name, type(self).__name__)
    wrong.asked = self  # type: ignore[attr-defined]  # as `obj` Python would guess at a name too
    raise wrong


def _unknown_of(self: Any, name: str, owner: str) -> AttributeError:
    if (owner, name) in _OF_CLASS:
        return missing(owner, name)
    column = _COLUMN.get(owner) if name != "domain" else None
    if column and name in (self if owner == "Domain" else self.domain):
        return AttributeError(f"{owner} has no {name!r}: {column.format(name)}.", name=name)
    known = [each for each in dir(self) if each[0] != "_"]
    like = [each for each in _SYNONYMS.get(name, ()) if each in known]
    if like and name not in MBI:
        return AttributeError(f"{owner} has no {name!r}: here it is {' and '.join(like)}.", name=name)
    return missing(owner, name, known)


class _Named(abc.ABCMeta):
    if not TYPE_CHECKING:

        @property
        def __signature__(cls) -> inspect.Signature:  # which would be that of the call below
            return inspect.signature(functools.partial(cls.__init__, None))

        def __call__(cls, *args: Any, **given: Any) -> Any:
            if inspect.isabstract(cls) and cls.__name__ in _CONSTRUCTIONS:  # of which Python names methods
                made = _CONSTRUCTIONS[cls.__name__]
                raise TypeError(f"{cls.__name__} is not made by a call of its class. Write {made}.")
            return super().__call__(*args, **given)

        def __getattr__(cls, name: str) -> Any:
            if name.startswith("_"):  # asked for by Python and its tools
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name)
            raise missing(cls.__name__, name, [each for each in dir(cls) if each[0] != "_"])


class Named(metaclass=_Named):
    """Base of classes whose unknown attributes and wrong arguments are answered with what to write here."""

    if not TYPE_CHECKING:

        def __init_subclass__(cls, **given: Any) -> None:
            super().__init_subclass__(**given)
            _answer_methods(cls)

        def __getattr__(self, name: str) -> Any:
            return of_class(self, name)
