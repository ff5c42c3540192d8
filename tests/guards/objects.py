"""Objects that a user would plausibly keep in a pickle, one of each kind, from public names alone."""

import pathlib
import tempfile

import numpy as np

import pgmjax as pj
from tests.guards.cases import DOMAIN, FEW_STEPS, ROWS, WORKLOAD, mixed_events, point, seeded, session, table

VALUES = np.array([[11, 9], [8, 12], [10, 10]])


def measurements():
    distribution = pj.privacy.DiscreteLaplace(2.0)
    pair = pj.LinearMeasurement.released(pj.queries.marginal(["a", "b"]), VALUES.ravel(), distribution)
    return [pair, pj.LinearMeasurement(("b", "c"), np.array([14.0, 15.5, 16.0, 14.5]), 1.5)]


def singles():
    distribution = pj.privacy.DiscreteLaplace(2.0)
    return [pj.LinearMeasurement.released(pj.queries.marginal(["a"]), np.array([57, 2, 1]), distribution)]


def rows_of(relation=pj.Relation.ADD_REMOVE):
    return pj.history.History(DOMAIN, measurements()[:1], relation=relation, secure=False)


def fitted():
    """Results of estimation."""
    given = measurements()
    fit = FEW_STEPS.fit(DOMAIN, given, total=ROWS)
    regions = pj.estimation.fit_local(DOMAIN, triangle(), total=ROWS, max_steps=5, progress=False)
    mixture = pj.estimation.fit_mixture(DOMAIN, given, total=ROWS, components=3, max_steps=5, progress=False)
    bars = pj.uncertainty.error_bars(fit, given, [pj.queries.marginal(["a"])], total=ROWS)
    return {
        "Fit": fit,
        "GraphicalModel": fit.model,
        "CalibratedModel": fit.model.calibrate(),
        "BatchFit": FEW_STEPS.fit_batch(DOMAIN, [given, given], [ROWS, ROWS + 1]),
        "LocalFit": regions,
        "RegionModel": regions.model,
        "MixtureFit": mixture,
        "MixtureModel": mixture.model,
        "ErrorBars": bars,
        "OraclesPlan": FEW_STEPS.plan(DOMAIN, [("a", "b"), ("b", "c")]),
    }


def triangle():
    """Answers whose cliques make a cycle, so that regions are no tree."""
    whole = [np.full((3, 2), 10.0), np.array([14.0, 16.0, 13.0, 17.0]).reshape(2, 2), np.full((3, 2), 10.5)]
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    return [pj.LinearMeasurement(pair, values, 1.0) for pair, values in zip(pairs, whole, strict=True)]


def described():
    """What a table is and what is known of it."""
    binned = {"bins": [0, 18, 40], "missing": "?"}
    return {
        "Domain": DOMAIN,
        "DomainOfBins": pj.Domain({"age": binned, "sex": {"labels": ["f", "m"]}}),
        "Attribute": DOMAIN.attribute("c"),
        "Dataset": table(),
        "LinearMeasurement": measurements()[0],
        "LinearMeasurementOfFloats": measurements()[1],
        "Workload": WORKLOAD,
        "Estimator": pj.Estimator(max_steps=7, solver="lbfgs", loss="l1"),
        "EstimatorOfObjects": pj.Estimator(loss=pj.losses.L1(0.02), solver=pj.solvers.LBFGS(memory=4)),
        "CliqueVector": pj.model.CliqueVector((("a",), ("b",)), (np.arange(3.0), np.arange(2.0))),
        "Compression": pj.Compression.from_measurements(DOMAIN, singles()),
        "AllowedSet": pj.AllowedSet(("a", "b"), [(0, 0), (1, 1), (2, 0)]),
        "FixedMarginal": pj.FixedMarginal(("b",), [20.0, 40.0]),
        "FunctionalDependency": pj.FunctionalDependency(("a",), "b", {(0,): 0, (1,): 1, (2,): 1}),
        "StructuralZeros": pj.StructuralZeros(("b", "c"), np.array([[True, False], [True, True]])),
        "Status": list(pj.Status),
        "Relation": list(pj.Relation),
    }


def asked():
    """Queries of every kind and block."""
    q = pj.queries
    blocks = {
        "identity": q.identity(),
        "total": q.total(),
        "point": q.point(1),
        "subset": q.subset([0, 2]),
        "range": q.range(0, 1),
        "ranges": q.ranges([(0, 1), (1, 2)]),
        "all_ranges": q.all_ranges(),
        "prefix": q.prefix(),
        "compression": q.compression([0, 0, 1]),
        "mean": q.mean([1.0, 2.0, 4.0]),
        "moments": q.moments(2),
        "matrix": q.matrix([[1, 0, 2], [0, 1, 1]]),
    }
    single = {f"Block_{name}": block for name, block in blocks.items()}
    product = q.Product({"a": q.prefix(), "b": q.identity()})
    return single | {
        "Query_Product": product,
        "Query_Products": [q.Product({"a": block}) for block in blocks.values()],
        "Query_DenseMatrix": q.DenseMatrix(("a", "b"), np.arange(12).reshape(2, 6)),
        "Query_WeightedSum": q.WeightedSum([(2.0, product), (1.0, q.marginal(["a", "b"]))]),
        "Quantised": q.quantise(q.Product({"a": q.mean([0.5, 1.25, 3.0])}), DOMAIN),
        "FrozenArray": q.FrozenArray([1.0, 2.0]),
    }


def private():
    """Budgets, events, distributions and scores."""
    privacy = pj.privacy
    budget = privacy.Budget(2, relation="add-remove")
    budget.charge([privacy.Pure("1/3")])
    account = privacy.RenyiAccount("replace-one")
    account.add(privacy.Gaussian("1/500"))
    counts = privacy.Counts(pj.queries.marginal(["a"]))
    errors = privacy.Errors(pj.queries.marginal(["b"]), np.array([20.0, 40.0]))
    calibrated = privacy.calibrate([pj.queries.marginal(["a"])], DOMAIN, "add-remove", 1)
    return {
        "RenyiAccount": account,
        "Events": mixed_events(),
        "PrivacyPlan": privacy.Composition(mixed_events()[:2], pj.Relation.ADD_REMOVE),
        "Calibration": calibrated,
        "Sensitivity": privacy.Sensitivity.of(pj.queries.marginal(["a"]), DOMAIN, "replace-one", "l1"),
        "DiscreteLaplace": privacy.DiscreteLaplace(1.5),
        "DiscreteGaussian": privacy.DiscreteGaussian(1.5),
        "ExponentialMechanism": privacy.ExponentialMechanism(2.0),
        "PermuteAndFlip": privacy.PermuteAndFlip(2.0),
        "RandomizedResponse": seeded().randomized_response(3, budget.cap),
        "UnaryResponse": seeded().unary_response(3, budget.cap),
        "Counts": counts,
        "Errors": errors,
        "Distances": privacy.Distances([(pj.queries.marginal(["a"]), np.array([20.0, 20.0, 20.0]))]),
        "Stack": privacy.Stack([counts, errors]),
        "SeededBackend": seeded(),
        "OpenDPBackend": privacy.OpenDPBackend(),
    }


def learned():
    """What is made of a history, and learners."""
    history, h = rows_of(), pj.history
    blue = h.BestLinearUnbiased.of(history)
    inference = blue.answer(point("a", 1))
    return {
        "History": history,
        "HistoryRows": h.Rows.of(history.queries, DOMAIN),
        "ProductPrior": h.ProductPrior.uniform(DOMAIN),
        "BestLinearUnbiased": blue,
        "Inference": inference,
        "JointInference": blue.answers(pj.queries.marginal(["a"])),
        "Verdict": inference.test(h.Claim(low=5.0)),
        "NoiseSum": h.NoiseSum([1.0, -2.0], [h.Laplace(2.0), h.Gaussian(1.0)]),
        "KernelPCA": h.KernelPCA.of(history, total=ROWS),
        "Ridge": h.KernelRidge.fit(history, 0.5, total=ROWS),
        "MaxEntropy": h.MaxEntropy(alpha=2.0, max_steps=5),
        "HistoryAnswers": h.KernelPCA.of(history, total=ROWS).answer([point("a", 1)]),
        "Condition": h.builders.is_in("a", [0, 2]),
        "Learners": [
            pj.learning.as_learner(name) for name in ("linear", "ridge", "gaussian-basis", "mlp", "engine")
        ],
        "Mechanisms": [
            made(epsilon=1, relation=pj.mechanisms.relations(made)[0])
            for made in pj.mechanisms.names().values()
        ],
        "Solvers": [pj.solvers.build(name) for name in pj.solvers.names()],
        "Losses": [pj.losses.L1(), pj.losses.L2()],
    }


def seen():
    """What companion estimators take and give, and other libraries' shapes of these objects."""
    response = pj.mechanisms.RandomizedResponse(2, "replace-one", universe="joint", backend=seeded(4))
    perturbed = response.perturb(table(), ["a", "b"], row_order_is_public=True)
    mbi = pj.adapters.mbi
    return {
        "PerturbedTable": perturbed,
        "ResponseColumn": perturbed.column,
        "ResponseMarginal": perturbed.marginal(("a",)),
        "PerturbedCodes": pj.local.PerturbedCodes(perturbed.distribution, perturbed.codes),
        "Channel": pj.local.Channel.of(perturbed.distribution),
        "Universe": pj.local.Universe(DOMAIN, ("a", "b")),
        "Grid": pj.local.Grid(2, 3),
        "GroupHistograms": pj.local.group_histograms(perturbed),
        "MbiDomain": mbi.MbiDomain(("a", "b"), (3, 2)),
        "MbiFactor": mbi.MbiFactor(mbi.MbiDomain(("a", "b"), (3, 2)), np.arange(6.0).reshape(3, 2)),
    }


def booked():
    """What a ledger and a session say of themselves, and errors."""
    folder = tempfile.TemporaryDirectory()
    with folder as place, pj.privacy.Ledger.create(pathlib.Path(place) / "books") as books:
        digest = books.digest_of(table())
        account = books.register("t", epsilon=2, relation="add-remove", digest=digest, research=True)
        answer = session(books).ask(point("a", 1), half_width=60, delta=0.2)
        return {
            "Account": account,
            "ChargeRecord": books.charges("t")[0],
            "Verification": books.verify(),
            "SessionAnswer": answer,
            "BudgetExceeded": pj.privacy.BudgetExceeded("too much"),
            "ModelTooLargeError": pj.ModelTooLargeError("too large"),
            "LedgerError": pj.privacy.LedgerError("closed"),
        }


def every():
    """All of them by name."""
    return {**fitted(), **described(), **asked(), **private(), **learned(), **seen(), **booked()}
