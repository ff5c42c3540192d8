"""The module paths of 0.1.0: tables from old to new names, and a finder that serves them.

An old path can be imported and unpickled as a module that loads nothing until one of its names is accessed.
The name is then looked up in its new place, with one `DeprecationWarning`. Modules that kept their path, or
took the path of an old module, serve the names they had in 0.1.0 through `serve_old_names`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

RENAMED: dict[str, str] = {
    "CalibratedModel": "model.CalibratedModel",
    "CliqueVector": "model.CliqueVector",
    "attribute_spec.bins": "checked_bins",
    "attribute_spec.fields": "fields_of_spec",
    "attribute_spec.labels": "checked_labels",
    "audit.bins.IntegerLaw": "IntegerDistribution",
    "audit.bins.check_law": "check_distribution",
    "batches.Tally": "ScanTally",
    "behind.Behind": "WorkerThread",
    "candidate_cells": "oracles.candidate_cells",
    "cli.mechanism_options.read": "read_options",
    "cli.mechanisms.run": "run_mechanisms",
    "companion.Answers": "UnbiasedAnswers",
    "companion.answers.Answers": "UnbiasedAnswers",
    "companion.Achievable": "ProperEstimator",
    "companion.achievable.Achievable": "ProperEstimator",
    "companion.pieces.Pieces": "SufficientStatistics",
    "constraints.proportional.Fitted": "ProportionalFit",
    "constraints.proportional.fit": "proportional_fit",
    "csv_layout.Layout": "CsvLayout",
    "domain_file.read": "read_file",
    "domain_file.write": "write_file",
    "evaluate.Evaluation": "WorkloadEvaluation",
    "fitting.End": "FitResult",
    "history.Blue": "BestLinearUnbiased",
    "history.Ridge": "KernelRidge",
    "history.ascent.Search": "AscentSearch",
    "history.blue.Blue": "BestLinearUnbiased",
    "history.characteristic.FourierLaw": "FourierDistribution",
    "history.demand.Demand": "AccuracyRequirement",
    "history.dual.Layout": "FeatureCliques",
    "history.dual.Point": "DualPoint",
    "history.exact_law.ExactLaw": "ExactDistribution",
    "history.features.Group": "CliqueTerms",
    "history.law_of": "distribution_of",
    "history.law_of.law_of": "distribution_of",
    "history.left_over.is_covered": "is_estimable",
    "history.monte_carlo.SimulatedLaw": "SimulatedDistribution",
    "history.noise_laws.NoiseLaw": "NoiseDistribution",
    "history.noise_laws.above": "NoiseDistribution.above",
    "history.noise_laws.as_law": "as_distribution",
    "history.noise_laws.characteristic": "NoiseDistribution.characteristic",
    "history.noise_laws.log_moment": "NoiseDistribution.log_moment",
    "history.projection.weights": "joint_weights",
    "history.ridge.Ridge": "KernelRidge",
    "history.rows.Group": "TermGroup",
    "history.spectrum.Spectrum": "KernelSpectrum",
    "history.sum_law.LatticeLaw": "LatticeDistribution",
    "history.sum_law.SumLaw": "SumDistribution",
    "known.Known": "SideInformation",
    "laws.Law": "DiscreteNoise",
    "learners.Engine": "EngineLearner",
    "learners.engine.Engine": "EngineLearner",
    "learners.sklearn_settings.described": "regressor_to_dict",
    "learners.sklearn_settings.made": "regressor_from",
    "losses.linear.Layout": "QueryLayout",
    "measurements.NOISE_LAWS": "NOISE_DISTRIBUTIONS",
    "mechanisms.parent_sets.of_cells": "parents_of_cells",
    "mechanisms.parent_sets.of_degree": "parents_of_degree",
    "mechanisms.parent_sets.that_fit": "candidates_that_fit",
    "mechanisms.settings.paid_for": "carry_measurements",
    "mechanisms.taxonomies.Levels": "AttributeLevels",
    "mechanisms.unfitted.Unfitted": "Measured",
    "mixture.layout.Layout": "MixtureLayout",
    "multipliers.ENOUGH": "NEGLIGIBLE",
    "oracles.calibration.Calibration": "CalibratedTree",
    "perturbed.Factor": "Channel",
    "perturbed.column.law_of": "distribution_of_encoding",
    "perturbed.factor.Factor": "Channel",
    "plan.contraction.Product": "MatrixProduct",
    "plan.elimination.best": "best_elimination",
    "plan.optimal.Weights": "CellCosts",
    "plan.optimal.merges": "optimal_merges",
    "plan.path.Product": "MatrixProduct",
    "plan.refine.PAIRS": "LOCAL_MAX_PAIRS",
    "plan.refine.merges": "refined_merges",
    "privacy.Gaussian": "GaussianEvent",
    "privacy.Laplace": "LaplaceEvent",
    "privacy.Loss": "Guarantee",
    "privacy.Plan": "Composition",
    "privacy.RandomizedResponse": "KaryResponse",
    "privacy.divergence.laplace": "laplace_divergence",
    "privacy.divergence.pure": "pure_divergence",
    "privacy.drawable.ResponseLaw": "ResponseDistribution",
    "privacy.events.Gaussian": "GaussianEvent",
    "privacy.events.Laplace": "LaplaceEvent",
    "privacy.ledger.digest.check_of": "key_check",
    "privacy.ledger.digest.create": "create_key",
    "privacy.ledger.digest.path_of": "key_path",
    "privacy.ledger.digest.read": "read_key",
    "privacy.ledger.new.make": "make_file",
    "privacy.loss_distributions.Unsupported": "UnsupportedError",
    "privacy.measuring.Planned": "PlannedMeasurement",
    "privacy.measuring.plan": "plan_measurements",
    "privacy.noise_events.Gaussian": "GaussianEvent",
    "privacy.noise_events.Laplace": "LaplaceEvent",
    "privacy.opendp_calls.exponential": "exponential_sampler",
    "privacy.opendp_calls.gaussian": "gaussian_sampler",
    "privacy.opendp_calls.laplace": "laplace_sampler",
    "privacy.opendp_calls.permute_and_flip": "permute_and_flip_sampler",
    "privacy.plans.Loss": "Guarantee",
    "privacy.plans.Plan": "Composition",
    "privacy.responding.Planned": "PlannedResponse",
    "privacy.responding.plan": "plan_responses",
    "privacy.response.RandomizedResponse": "KaryResponse",
    "privacy.scores.grid.Weights": "DyadicWeights",
    "privacy.selecting.Planned": "PlannedSelection",
    "privacy.selecting.plan": "plan_selection",
    "privacy.threshold_law.ThresholdLaw": "ThresholdNoise",
    "privacy.unary_response.LARGEST_SIZE": "LARGEST_UNARY_SIZE",
    "queries.extremes.of_matrix": "row_extremes_of_matrix",
    "queries.extremes.of_product": "row_extremes_of_product",
    "queries.grid.Grid": "RoundedMatrix",
    "queries.indicators.check": "check_indicators",
    "queries.numeric_blocks.Compression": "Merge",
    "row_check.check": "compare_rows",
    "solvers.accelerated.State": "AcceleratedState",
    "solvers.dual_averaging.State": "DualAveragingState",
    "solvers.lbfgs.State": "LBFGSState",
    "solvers.loop.Course": "FitSteps",
    "solvers.loop.Reply": "StepResult",
    "solvers.loop.Request": "StepRequest",
    "solvers.loop.alone": "run_single",
    "solvers.mirror_descent.State": "MirrorDescentState",
    "solvers.rows.Slots": "BatchState",
    "solvers.rows.run": "run_batch",
    "strategies.attribute.Factor": "AttributeStrategy",
    "strategies.full_rank.optimise": "optimise_full_rank",
    "strategies.kron.optimise": "optimise_product",
    "strategies.p_identity.optimise": "optimise_p_identity",
    "sweeps.Grid": "SweepGrid",
    "sweeps.Progress": "SweepProgress",
    "sweeps.errors.Errors": "ErrorSummary",
    "sweeps.forecast.Forecast": "MemoryForecast",
    "sweeps.grid.Grid": "SweepGrid",
    "sweeps.page_parts.table": "results_table",
    "sweeps.runner.Progress": "SweepProgress",
    "sweeps.workloads.read_spec": "read_workload",
    "task.Settings": "FitSettings",
    "training.encodings.Cells": "CellWeights",
    "training.lessons.Lesson": "TrainingSet",
    "training.lessons.learned_together": "group_cliques",
    "training.random_queries.random_ranges": "distinct_ranges",
    "tree_picture.Layout": "TreeLayout",
    "uncertainty.effects.Effects": "ResidualBasis",
    "workloads.of_blocks": "Workload.of_blocks",
    "workloads.random_marginals": "Workload.random",
    "workloads.union": "Workload.union",
}
"""Names that are called otherwise where they are now, by their old path; the new one may have dots."""

GONE = frozenset(
    {
        "history.noise_laws.DISCRETE",
        "mixture.descent.descend",
        "mixture.files.load",
        "model_io.require_probabilities",
        "model_io.write",
        "regions.files.load",
        "solvers.loop.solve",
    }
)
"""Old paths at whose new place the same name is something else, or a function that takes other arguments."""

MODULES: dict[str, str] = {
    "_checks": "_internal.checks",
    "adapters.mbi_queries": "adapters.mbi",
    "answering": "model.answering",
    "approximate": "estimation.approximate",
    "attribute": "data.attribute",
    "attribute_spec": "data.attribute",
    "audit.bins": "audit.goodness",
    "audit.case": "audit.mechanism",
    "audit.contents": "audit.compare",
    "audit.differences": "audit.compare",
    "audit.exact_laws": "audit.exact",
    "audit.limits": "audit.blackbox",
    "audit.mutations_contract": "audit.mutations",
    "audit.mutations_response": "audit.mutations",
    "audit.outputs": "audit.blackbox",
    "audit.parts": "audit.compare",
    "audit.parts_of_tables": "audit.compare",
    "audit.power": "audit.goodness",
    "audit.repetition": "audit.primitives",
    "audit.responses": "audit.primitives",
    "audit.tables": "audit.specimen",
    "batch": "estimation.batch",
    "batches": "data.sources",
    "behind": "_internal.worker",
    "calibrated_model": "model.calibrated",
    "certificate": "estimation.solvers.certificate",
    "cli.interrupts": "cli.process",
    "cli.mechanism_options": "cli.release",
    "cli.mechanisms": "cli.query",
    "cli.output": "cli.process",
    "clique_vector": "model.clique_vector",
    "cliques": "data.cliques",
    "companion": "local",
    "companion.achievable": "local.proper",
    "companion.answers": "local.answers",
    "companion.channel": "local.channel",
    "companion.cuts": "local.graphs",
    "companion.factored": "local.statistical",
    "companion.grid": "local.continuous",
    "companion.grouped": "local.grouped",
    "companion.lipschitz": "local.continuous",
    "companion.minimax": "local.bounds",
    "companion.pairs": "local.graphs",
    "companion.pieces": "local.answers",
    "companion.responses": "local.codes",
    "companion.rowwise": "local.statistical",
    "companion.universe": "local.codes",
    "compiling": "_internal.jit",
    "completion": "model.completion",
    "compression": "model.compression",
    "conditionals": "model.sampling",
    "constraints": "estimation.constraints estimation.feasibility",
    "constraints.allowed": "estimation.constraints",
    "constraints.dependency": "estimation.constraints",
    "constraints.feasible": "estimation.feasibility",
    "constraints.fixed": "estimation.constraints",
    "constraints.proportional": "estimation.feasibility",
    "constraints.zeros": "estimation.constraints",
    "counting": "data.counting",
    "csv_layout": "data.files",
    "dataset": "data.dataset",
    "demo": "data.demo",
    "descent": "estimation.fit estimation.solvers.stopping",
    "device_rows": "model.device_sampling",
    "domain": "data.domain",
    "domain_file": "data.domain",
    "drawing": "plotting.axes",
    "encoding": "data.encoding",
    "estimate": "estimation.estimator",
    "evaluate": "sweeps.evaluate",
    "fingerprint": "data.fingerprint",
    "fit_pictures": "estimation.views",
    "fitting": "estimation.fit",
    "gradients.implicit": "gradients.solve",
    "gradients.marginals": "gradients.problem",
    "gradients.newton": "gradients.solve",
    "gradients.parameters": "gradients.problem",
    "gradients.unrolled": "gradients.solve",
    "history.ascent": "history.max_entropy.ascent",
    "history.blue": "history.bayes.blue",
    "history.builders.boxes": "history.builders.conditions",
    "history.builders.marginals": "history.builders.queries",
    "history.builders.moments": "history.builders.queries",
    "history.builders.random_queries": "queries.random",
    "history.builders.transforms": "history.builders.queries",
    "history.cell_account": "history.session.costs",
    "history.characteristic": "history.bayes.characteristic",
    "history.claims": "history.bayes.inference",
    "history.conjugate_gradients": "history.kernel.ridge",
    "history.consistent": "history.bayes.consistent",
    "history.convolution": "history.bayes.convolution",
    "history.coordinates": "history.bayes.coordinates",
    "history.costs": "history.session.costs",
    "history.demand": "history.session.requirement",
    "history.device_kernel": "history.kernel.device",
    "history.drawing": "history.max_entropy.chains",
    "history.dual": "history.max_entropy.dual",
    "history.exact_law": "history.bayes.distribution",
    "history.features": "history.max_entropy.dual",
    "history.gibbs": "history.max_entropy.chains",
    "history.inference": "history.bayes.inference",
    "history.inference_control": "history.bayes.consistent",
    "history.information": "measurements.least_squares",
    "history.joint_noise": "history.history",
    "history.kernel": "history.kernel.inner_products",
    "history.kernel_pca": "history.kernel.pca",
    "history.kernel_product": "history.kernel.product",
    "history.law_of": "history.bayes.choose",
    "history.left_over": "history.estimable",
    "history.max_entropy": "history.max_entropy.fit",
    "history.monte_carlo": "history.bayes.monte_carlo",
    "history.noise_laws": "measurements.noise history.bayes.noise_sum",
    "history.noise_sum": "history.bayes.noise_sum measurements.noise",
    "history.norms": "history.kernel.inner_products",
    "history.pair_products": "history.kernel.inner_products",
    "history.penalties": "history.max_entropy.dual",
    "history.posterior": "history.bayes.posterior",
    "history.projection": "history.kernel.inner_products",
    "history.ridge": "history.kernel.ridge",
    "history.ridge_system": "history.kernel.ridge",
    "history.sampled_curvature": "history.max_entropy.newton",
    "history.session": "history.session.session",
    "history.session_answer": "history.session.state",
    "history.session_log": "history.session.log",
    "history.session_opening": "history.session.log",
    "history.session_replay": "history.session.state",
    "history.session_state": "history.session.state",
    "history.smoothing": "history.prior",
    "history.spectrum": "history.kernel.pca",
    "history.striped_cholesky": "history.kernel.ridge",
    "history.sum_law": "history.bayes.distribution",
    "history.terms": "history.rows",
    "history.validation": "history.kernel.cross_validation",
    "html_view": "_internal.html",
    "known": "estimation.side_information",
    "laws": "measurements.noise",
    "learners": "learning",
    "learners.base": "learning.base",
    "learners.engine": "learning.engine",
    "learners.gaussian_basis": "learning.gaussian_basis",
    "learners.inputs": "learning.base",
    "learners.linear": "learning.linear",
    "learners.mlp": "learning.mlp",
    "learners.mlp_training": "learning.mlp",
    "learners.penalised": "learning.linear",
    "learners.scale": "learning.scaling",
    "learners.sklearn_learner": "learning.sklearn",
    "learners.sklearn_settings": "learning.sklearn",
    "losses": "estimation.losses",
    "losses.augmented": "estimation.losses.augmented",
    "losses.base": "estimation.losses.base",
    "losses.build": "estimation.losses.build",
    "losses.curvature": "estimation.losses.linear",
    "losses.custom": "estimation.losses.custom",
    "losses.l1": "estimation.losses.l1",
    "losses.l2": "estimation.losses.l2",
    "losses.linear": "estimation.losses.linear",
    "losses.transcript": "estimation.losses.transcript",
    "many_marginals": "model.graphical",
    "marginal_pictures": "plotting.marginals",
    "measured": "measurements.marginals",
    "measurements": "measurements.linear",
    "mechanisms.annealing": "mechanisms.adaptive",
    "mechanisms.closure": "mechanisms.adaptive",
    "mechanisms.dual_query_cost": "mechanisms.dual_query_game",
    "mechanisms.dual_query_records": "mechanisms.dual_query",
    "mechanisms.error_report": "mechanisms.hdmm",
    "mechanisms.factored_weights": "mechanisms.mwem_baselines",
    "mechanisms.mldp_release": "release.trained",
    "mechanisms.multiplicative_weights": "mechanisms.mwem_baselines",
    "mechanisms.mwem_candidates": "mechanisms.mwem_rounds",
    "mechanisms.mwem_estimates": "mechanisms.mwem_baselines",
    "mechanisms.network_search": "mechanisms.bayes_network",
    "mechanisms.parent_sets": "mechanisms.bayes_network",
    "mechanisms.query_rows": "queries.rows",
    "mechanisms.response_universes": "mechanisms.randomized_response",
    "mechanisms.settings": "mechanisms.base",
    "mechanisms.spanning": "mechanisms.mst",
    "mechanisms.taxonomies": "mechanisms.bayes_network",
    "mechanisms.unfitted": "mechanisms.base",
    "mixture": "model.mixture estimation.mixture_fit",
    "mixture.descent": "estimation.mixture_fit",
    "mixture.files": "model.mixture",
    "mixture.fit": "estimation.mixture_fit",
    "mixture.layout": "estimation.mixture_layout",
    "mixture.model": "model.mixture",
    "mixture.start": "estimation.mixture_fit",
    "model": "model.graphical",
    "model_io": "model.io",
    "model_pictures": "model.views",
    "model_rows": "model.rows",
    "multipliers": "estimation.fit estimation.solvers.stopping",
    "new_folder": "_internal.files",
    "noise_level": "estimation.losses.build",
    "ops": "inference.ops",
    "ops.exact_product": "inference.ops.exact_product",
    "ops.fast_product": "inference.ops.fast_product",
    "ops.flat": "inference.ops.tables",
    "ops.guarded": "inference.ops.log_matmul_exp",
    "ops.lazily": "inference.ops.tables",
    "ops.log_matmul_exp": "inference.ops.log_matmul_exp",
    "ops.products": "inference.ops.sweep",
    "ops.sweep": "inference.ops.sweep",
    "ops.tables": "inference.ops.tables",
    "oracles": "inference.oracles",
    "oracles.base": "inference.oracles.base",
    "oracles.brute_force": "inference.oracles.brute_force",
    "oracles.calibration": "inference.oracles.host_tree",
    "oracles.choose": "inference.oracles.choose inference.oracles.base",
    "oracles.contraction": "inference.oracles.contraction",
    "oracles.host": "inference.oracles.host",
    "oracles.host_tree": "inference.oracles.host_tree",
    "oracles.level_sweeps": "inference.oracles.levels",
    "oracles.levels": "inference.oracles.levels",
    "oracles.message_passing": "inference.oracles.message_passing",
    "oracles.region_sweeps": "inference.oracles.belief_propagation",
    "oracles.regions": "inference.oracles.belief_propagation",
    "oracles.sliced": "inference.oracles.sliced",
    "perturbed": "local",
    "perturbed.column": "local.table",
    "perturbed.factor": "local.channel",
    "perturbed.marginal": "local.marginals",
    "perturbed.storage": "local.table",
    "perturbed.table": "local.table",
    "perturbed.tally": "local.marginals",
    "plan": "inference.plan",
    "plan.carrying": "inference.plan.growth",
    "plan.clique_forest": "inference.plan.growth",
    "plan.contraction": "inference.plan.contraction",
    "plan.cost": "inference.plan.cost",
    "plan.counting_numbers": "inference.plan.regions",
    "plan.elimination": "inference.plan.junction_tree",
    "plan.forecast": "inference.plan.forecast",
    "plan.growth": "inference.plan.growth",
    "plan.junction_tree": "inference.plan.junction_tree",
    "plan.level_classes": "inference.plan.level_tree",
    "plan.level_schedule": "inference.plan.level_tree",
    "plan.level_tree": "inference.plan.level_tree",
    "plan.levels": "inference.plan.levels",
    "plan.optimal": "inference.plan.search",
    "plan.path": "inference.plan.path",
    "plan.refine": "inference.plan.search",
    "plan.region_maps": "inference.plan.regions",
    "plan.regions": "inference.plan.regions",
    "plan.search": "inference.plan.search",
    "plan.slicing": "inference.plan.slicing",
    "plan.structure": "inference.plan.structure",
    "plots": "release.figures",
    "privacy.accounting": "privacy.accounting.zcdp",
    "privacy.amounts": "privacy.exact",
    "privacy.backend_opendp": "privacy.opendp",
    "privacy.backend_seeded": "privacy.seeded",
    "privacy.calibration": "privacy.accounting.calibration",
    "privacy.divergence": "privacy.accounting.events",
    "privacy.drawable": "privacy.response",
    "privacy.event_base": "privacy.accounting.events",
    "privacy.events": "privacy.accounting.events",
    "privacy.journal": "privacy.private_table",
    "privacy.ledger.budget": "privacy.ledger.account",
    "privacy.ledger.connection": "privacy.ledger.database",
    "privacy.ledger.digest": "privacy.ledger.chain",
    "privacy.ledger.file": "privacy.ledger.database",
    "privacy.ledger.new": "privacy.ledger.ledger",
    "privacy.ledger.place": "privacy.ledger.database",
    "privacy.ledger.renyi": "privacy.ledger.meter",
    "privacy.ledger.schema": "privacy.ledger.database",
    "privacy.loss_distributions": "privacy.accounting.pld",
    "privacy.noise": "privacy.private_table",
    "privacy.noise_events": "privacy.accounting.events",
    "privacy.opendp_calls": "privacy.opendp",
    "privacy.plans": "privacy.accounting.composition",
    "privacy.private_ratings": "privacy.ratings",
    "privacy.relation": "data.relation",
    "privacy.renyi": "privacy.accounting.renyi",
    "privacy.response_blocks": "privacy.responding",
    "privacy.scores.grid": "privacy.scores.base",
    "privacy.scores.overshoots": "privacy.scores.errors",
    "privacy.scores.stack": "privacy.scores.counts",
    "privacy.search": "privacy.accounting.calibration",
    "privacy.selecting": "privacy.measuring",
    "privacy.shifts": "privacy.sensitivity",
    "privacy.similarity": "privacy.ratings",
    "privacy.threshold_law": "privacy.selection",
    "privacy.thresholding": "privacy.threshold",
    "privacy.unary_response": "privacy.response",
    "progress": "_internal.progress",
    "public_domain": "data.domain",
    "queries.base": "queries.query",
    "queries.coerce": "queries.spec",
    "queries.dense": "queries.sums",
    "queries.exact": "queries.columns",
    "queries.extremes": "queries.columns",
    "queries.frozen_array": "queries.block",
    "queries.grid": "queries.quantise",
    "queries.indicators": "queries.integers",
    "queries.numeric_blocks": "queries.blocks",
    "queries.range_blocks": "queries.blocks",
    "queries.specs": "queries.spec",
    "queries.transpose": "queries.rows",
    "queries.wide": "queries.integers",
    "queries.words": "queries.spec",
    "query_text": "queries.text",
    "ratings": "data.ratings",
    "record_file": "_internal.files",
    "regions": "model.regions estimation.region_fit",
    "regions.files": "model.regions",
    "regions.fit": "estimation.region_fit",
    "regions.forest": "model.regions",
    "regions.model": "model.regions",
    "regions.problem": "estimation.region_fit",
    "relation": "data.relation",
    "release": "release.release",
    "release_folder": "release.folder",
    "release_tables": "release.tables",
    "report": "release.report",
    "report_figures": "release.figures",
    "report_text": "release.text",
    "rounding": "model.sampling",
    "row_check": "model.rows",
    "row_file": "model.row_file",
    "sampling": "model.sampling",
    "saved": "release.load",
    "sharding": "_internal.sharding",
    "solvers": "estimation.solvers",
    "solvers.accelerated": "estimation.solvers.accelerated",
    "solvers.base": "estimation.solvers.problem",
    "solvers.dual_averaging": "estimation.solvers.dual_averaging",
    "solvers.lbfgs": "estimation.solvers.lbfgs",
    "solvers.loop": "estimation.solvers.loop estimation.solvers.stopping",
    "solvers.mirror_descent": "estimation.solvers.mirror_descent",
    "solvers.problem": "estimation.solvers.problem",
    "solvers.rows": "estimation.solvers.batch",
    "source_arrow": "data.arrow",
    "source_files": "data.files",
    "source_npy": "data.files",
    "source_recoded": "data.sources",
    "strategies.errors": "strategies.strategy",
    "strategies.full_rank": "strategies.attribute",
    "strategies.groups": "strategies.products",
    "strategies.kron": "strategies.products",
    "strategies.minimise": "strategies.optimise",
    "strategies.p_identity": "strategies.attribute",
    "strategies.together": "strategies.optimise",
    "sweeps.errors": "sweeps.evaluate",
    "sweeps.forecast": "sweeps.work",
    "sweeps.machine": "sweeps.runner",
    "sweeps.page_parts": "sweeps.page",
    "sweeps.workloads": "sweeps.grid",
    "task": "estimation.problem",
    "total": "measurements.total",
    "training": "learning",
    "training.bounds": "learning.selection",
    "training.choice": "learning.training_set",
    "training.counts": "learning.training_set",
    "training.encodings": "learning.encodings",
    "training.factor_rows": "learning.encodings",
    "training.lessons": "learning.training_set",
    "training.predictor": "learning.predictor",
    "training.predictor_folder": "learning.predictor",
    "training.random_queries": "queries.random",
    "training.selecting": "learning.selection",
    "transcript": "measurements.transcript",
    "tree_picture": "plotting.tree",
    "uncertainty.asked": "uncertainty.queries",
    "uncertainty.bars": "uncertainty.intervals",
    "uncertainty.conjugate_gradients": "uncertainty.laplace",
    "uncertainty.effects": "measurements.least_squares",
    "uncertainty.methods": "uncertainty.intervals",
    "uncertainty.noiseless": "uncertainty.linear",
    "value_codes": "data.attribute",
    "values": "data.encoding",
    "warm_start": "estimation.warm_start",
    "workload": "queries.workload",
    "workload_entry": "queries.workload",
    "workloads": "queries.workload",
}
"""New places of the names of each moved module; several places are separated by a blank."""

_PREFIX = "pgmjax."
_WARNED: set[str] = set()


def _find(old: str, name: str) -> Any:
    """Return what was `pgmjax.OLD.NAME` in 0.1.0: a name, with a warning the first time, or else a submodule.

    The warning is attributed to the line whose attribute access called `__getattr__`.
    """
    path = f"{old}.{name}" if old else name
    if name == "__all__" and old in MODULES:
        return sorted(_public_names(old))
    if not name.startswith("__") and path not in GONE:
        first, *rest = RENAMED.get(path, name).split(".")
        for owner in _places(old):
            try:  # by vars: getattr on a package would come back here
                found = functools.reduce(getattr, rest, _own(owner, first))
            except (KeyError, AttributeError):
                continue
            if isinstance(found, types.ModuleType) and path in MODULES:
                continue  # a current submodule with the name of the old one
            top = sys.modules["pgmjax"]
            stays = old in top.__all__ and getattr(top, old) is owner  # such as pgmjax.losses
            if (not stays or path in RENAMED) and path not in _WARNED:
                new = ".".join([owner.__name__, first, *rest])
                said = f"{_PREFIX}{path} is {new} now; the old path may go in 0.3."
                warnings.warn(said, DeprecationWarning, stacklevel=3)
                _WARNED.add(path)
            return found
        if path in MODULES:
            return importlib.import_module(_PREFIX + path)
    raise AttributeError(f"module {(_PREFIX + old).rstrip('.')!r} has no attribute {name!r}")


def _own(owner: types.ModuleType, name: str) -> Any:
    """Return a name of a module, which the top imports when it is first used.

    Raises:
        KeyError: it has none of its own.
    """
    if owner.__name__ == "pgmjax" and name in owner.__all__:
        return getattr(owner, name)
    return vars(owner)[name]


def _places(old: str) -> Iterator[types.ModuleType]:
    """The modules that now hold the names of an old one, or itself if it did not move; imported lazily."""
    places = MODULES[old].split() if old in MODULES else [old]
    return (importlib.import_module((_PREFIX + place).rstrip(".")) for place in places)


def _public_names(old: str) -> set[str]:
    """The names that `from pgmjax.OLD import *` imports: at least those of 0.1.0 that still exist."""
    names = {path.rpartition(".")[2] for path in RENAMED if path.rpartition(".")[0] == old}
    for owner in _places(old):
        names.update(name for name, value in vars(owner).items() if _is_own(owner, value) and name[0] != "_")
        names.update(getattr(owner, "__all__", ()))
    return {name for name in names if f"{old}.{name}" not in GONE}


def _is_own(owner: types.ModuleType, value: Any) -> bool:
    """Return whether a value is defined in a module rather than imported, as far as can be determined."""
    if isinstance(value, types.ModuleType) or value is annotations:
        return False
    return not hasattr(value, "__qualname__") or value.__module__ == owner.__name__


class _Moved(types.ModuleType):
    """A module of 0.1.0 that has moved."""

    def __getattr__(self, name: str) -> Any:
        return _find(self.__name__.removeprefix(_PREFIX), name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, except old submodules, which `import` sets: `_find` prefers a function."""
        if not isinstance(value, _Moved):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        old = self.__name__.removeprefix(_PREFIX)
        submodules = {path.rpartition(".")[2] for path in MODULES if path.rpartition(".")[0] == old}
        return sorted({*super().__dir__(), *_public_names(old), *submodules})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the old modules; it comes last among the finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        old = fullname.removeprefix(_PREFIX)
        if old == fullname or old not in MODULES:
            return None
        package = any(each.startswith(old + ".") for each in MODULES)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Moved(spec.name, "A module of pgmjax 0.1.0; its names are elsewhere now.")

    def exec_module(self, module: types.ModuleType) -> None:
        """Load nothing: names are looked up when accessed."""


_FINDER = _Finder()


def serve_old_names(package: str, old: str | None = None) -> None:
    """Serve the moved names of 0.1.0 in addition to a module's own; to be called at the end of the module.

    Call this instead of defining `__getattr__`, so that type checkers still detect missing names.

    Args:
        package: `__name__` of the package or module.
        old: its path in 0.1.0, without `pgmjax.`. Default: the same as now.
    """
    module = sys.modules[package]
    was = package.removeprefix("pgmjax").removeprefix(".") if old is None else old

    def __getattr__(name: str) -> Any:
        full, folders = f"{package}.{name}", vars(module).get("__path__", [])
        if not name.startswith("__") and importlib.machinery.PathFinder.find_spec(full, folders):
            raise AttributeError(f"module {package!r} has no attribute {name!r}; import {full}")
        return _find(was, name)

    vars(module)["__getattr__"] = __getattr__
    # `import` sets no attribute for modules found in sys.modules, so names shared with old submodules stay
    for name in {*vars(module), *vars(module).get("__all__", ())}:
        full, folders = f"{package}.{name}", vars(module).get("__path__", [])
        spec = _FINDER.find_spec(full)
        if spec is None or importlib.machinery.PathFinder.find_spec(full, folders):
            continue
        if full not in sys.modules:
            sys.modules[full] = importlib.util.module_from_spec(spec)


def renamed(**names: str) -> Callable[[Any], Any]:
    """Keep the old names of a function's arguments or of a dataclass's fields working, with a warning.

    For a class, the old names work as constructor keywords, as attributes and in pickles.

    Args:
        names: new name for each old name.
    """

    def decorate(thing: Any) -> Any:
        if not isinstance(thing, type):
            return _with_old_keywords(thing, names)
        cls: Any = thing
        for old, new in names.items():
            setattr(cls, old, property(functools.partial(_old_attribute, cls.__name__, old, new)))
        if not hasattr(cls, "__dataclass_fields__"):
            return cls
        cls.__init__ = _with_old_keywords(cls.__init__, names)

        def __setstate__(self: Any, state: dict[str, Any]) -> None:
            for name, value in state.items():
                object.__setattr__(self, names.get(name, name), value)

        if "__setstate__" not in vars(cls):
            cls.__setstate__ = __setstate__
        return cls

    return decorate


def _with_old_keywords(function: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*given: Any, **keywords: Any) -> Any:
        for old in names.keys() & keywords.keys():
            if names[old] in keywords:
                raise TypeError(
                    f"got both {names[old]!r} and its old name {old!r}: give the first one alone."
                )
            _warn_of(f"the argument {old!r}", names[old])
            keywords[names[old]] = keywords.pop(old)
        return function(*given, **keywords)

    return called


def _old_attribute(owner: str, old: str, new: str, instance: Any) -> Any:
    _warn_of(f"{owner}.{old}", new)
    return getattr(instance, new)


def _warn_of(old: str, new: str) -> None:
    warnings.warn(f"{old} is called {new!r} now; the old name may go in 0.3.", DeprecationWarning, 3)


def install() -> None:
    """Install the finder for old paths; called once, by `pgmjax/__init__.py`."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    serve_old_names("pgmjax")
