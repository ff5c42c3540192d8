"""Faults in queries, measurements, models, fits and error bars."""

from fault import Fault

FAULTS = (
    Fault(
        "tables over the same attributes are added with inverted axes",
        "pgmjax.model.clique_vector",
        "summed",
        old="[clique.index(name) for name in first[key]]",
        new="[first[key].index(name) for name in clique]",
        tests=(
            (
                "tests/model/test_clique_vector.py::test_tables_whose_three_axes_are_in_a_circle_add_up_c"
                "ell_by_cell"
            ),
        ),
    ),
    Fault(
        "a comparison counts the missing bucket as a number",
        "pgmjax.queries.text",
        "_below",
        old="attribute.size - attribute.missing",
        new="attribute.size",
        tests=("tests/queries/test_text.py::test_selection",),
    ),
    Fault(
        "gathered marginals are weighted by standard deviations",
        "pgmjax.measurements.linear",
        "noisy_marginal",
        old="np.square(measurement.row_stddevs())",
        new="measurement.row_stddevs()",
        tests=("tests/measurements/test_marginals.py::test_one_measurement_is_summed_and_its_noise_adds_up",),
    ),
    Fault(
        "growth takes off cells of a variable that had none",
        "pgmjax.inference.plan.growth",
        "Growth._within",
        old="used and here & ~across == 0",
        new="here & ~across == 0",
        tests=("tests/inference/plan/test_growth.py::test_known_answers",),
    ),
    Fault(
        "the forecast of memory at the peak keeps cotangents too long",
        "pgmjax.inference.plan.contraction",
        "_peak",
        old="alive -= 2 * result",
        new="alive -= result",
        tests=("tests/inference/plan/test_cost.py::test_peak_counts_every_live_table",),
    ),
    Fault(
        "a cover weighs a region by its commonest attribute",
        "pgmjax.inference.plan.regions",
        "cover",
        old="max((1 / degree[v] for v in region), default=1.0)",
        new="min((1 / degree[v] for v in region), default=1.0)",
        tests=("tests/inference/plan/test_regions.py::test_the_entropy_is_bounded_from_above",),
    ),
    Fault(
        "slices start at their number and not at their first value",
        "pgmjax.inference.plan.slicing",
        "SlicedPath.starts",
        old="range(0, self.structure.sizes[v], w)",
        new="range(0, self.structure.sizes[v] // w)",
        tests=("tests/inference/oracles/test_sliced.py::test_slices_match_brute_force",),
    ),
    Fault(
        "tiles of a log product are padded with 0 instead of minus infinity",
        "pgmjax.kernels.exact_product",
        "_tiles",
        old="jnp.pad(table, padding, constant_values=-jnp.inf)",
        new="jnp.pad(table, padding)",
        tests=("tests/kernels/test_products.py::test_the_exact_form_matches_the_sum_of_all_terms",),
    ),
    Fault(
        "the clip limit of the fast product lets lost terms pass",
        "pgmjax.kernels.fast_product",
        "clip_limit",
        old="inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype) / float(numbers.eps)",
        new="inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype)",
        tests=("tests/kernels/test_products.py::test_the_clip_limit_bounds_what_underflow_loses",),
    ),
    Fault(
        "a contraction forgets the scale of all steps but the last",
        "pgmjax.inference.ops",
        "contract",
        old="scale + top",
        new="top",
        tests=("tests/inference/ops/test_tables.py",),
    ),
    Fault(
        "calibration forgets the scales of its messages",
        "pgmjax.inference.oracles.host_tree",
        "_conditionals",
        old="math.log(message.table) + message.scale",
        new="math.log(message.table)",
        tests=("tests/inference/oracles/test_host.py",),
    ),
    Fault(
        "a derivative in forward mode drops the log-partition's part",
        "pgmjax.inference.oracles.base",
        "in_forward_mode",
        old="weights[0] * own + change",
        new="change",
        tests=(
            (
                "tests/inference/oracles/test_contract.py::test_log_partition_and_marginals_differentiate"
                "_together"
            ),
        ),
    ),
    Fault(
        "the maximum over slices is that of the last slice",
        "pgmjax.inference.oracles.sliced",
        "Sliced.maximum",
        old="jnp.maximum(top, jnp.asarray(value))",
        new="jnp.asarray(value)",
        tests=("tests/inference/oracles/test_sliced.py::test_slices_match_brute_force",),
    ),
    Fault(
        "inaccurate fast products are never run again exactly",
        "pgmjax.inference.oracles.base",
        "Oracle.run",
        old="np.finfo(dtype).eps",
        new="np.finfo(dtype).max",
        tests=(
            (
                "tests/inference/oracles/test_accuracy.py::test_fast_products_are_right_or_say_that_they_"
                "may_not_be"
            ),
        ),
    ),
    Fault(
        "the bound of the region oracle counts every region once",
        "pgmjax.inference.oracles.belief_propagation",
        "upper_bound",
        old="weight * log_scales(maps, x)",
        new="log_scales(maps, x)",
        tests=(
            (
                "tests/inference/oracles/test_belief_propagation.py::test_convex_log_partition_bounds_fro"
                "m_above_converged_or_not"
            ),
        ),
    ),
    Fault(
        "the host tree takes joint tables for conditional ones",
        "pgmjax.inference.oracles.host_tree",
        "HostTree._reduced",
        old="self.table(n) if whole else self.given[n]",
        new="self.table(n)",
        tests=("tests/inference/oracles/test_host.py::test_every_order_of_every_set",),
    ),
    Fault(
        "message passing subtracts messages of minus infinity",
        "pgmjax.inference.oracles.message_passing",
        "MessagePassing.beliefs",
        old="jnp.where(jnp.isfinite(messages[i]), messages[i], 0)",
        new="messages[i]",
        tests=("tests/inference/oracles/test_accuracy.py::test_random_models_in_float64",),
    ),
    Fault(
        "the tail of a wide discrete Gaussian lacks the half step",
        "pgmjax.measurements.noise",
        "DiscreteGaussian.above",
        old="np.floor(values) + 0.5",
        new="np.floor(values)",
        tests=("tests/measurements/test_noise.py::test_the_wide_gaussian_tail_meets_the_sum",),
    ),
    Fault(
        "the tail of the discrete Laplace starts one too early",
        "pgmjax.measurements.noise",
        "DiscreteLaplace.above",
        old="np.floor(values) + 1",
        new="np.floor(values)",
        tests=("tests/measurements/test_noise.py::test_half_widths_are_the_smallest_that_hold_the_level",),
    ),
    Fault(
        "the variance of the total takes the standard deviation for the variance",
        "pgmjax.measurements.total",
        "_estimate",
        old="(rows * stddevs) ** 2",
        new="rows ** 2 * stddevs",
        tests=("tests/measurements/test_total.py::test_closed_forms",),
    ),
    Fault(
        "the largest move of one answer forgets records that change their weight",
        "pgmjax.queries.query",
        "Query.linf_sensitivity",
        old="spread if max_weight is None else max(spread, entry)",
        new="spread",
        tests=(
            "tests/queries/test_linf_sensitivity.py::test_weights_scale_and_a_record_may_get_weight_zero",
        ),
    ),
    Fault(
        "all ranges cover the middle code once too seldom at odd sizes",
        "pgmjax.queries.blocks",
        "AllRanges.max_column",
        old="size + 1",
        new="size",
        tests=("tests/queries/test_blocks.py::test_column_norms_and_distances_are_those_of_the_matrix",),
    ),
    Fault(
        "pairs of columns with large absolute products are kept",
        "pgmjax.queries.sensitivity",
        "_undominated",
        old="_best(pairs, 3, smallest=True)",
        new="_best(pairs, 3, smallest=False)",
        tests=(
            (
                "tests/queries/test_sensitivity.py::test_columns_of_equal_size_and_product_lie_farther_ap"
                "art_without_a_common_row"
            ),
        ),
    ),
    Fault(
        "the bound of a distance takes every matrix for non-negative",
        "pgmjax.queries.sensitivity",
        "distance_bound",
        old="2 if power == 1 or nonnegative else 4",
        new="2",
        tests=("tests/queries/test_sensitivity.py::test_factors_of_many_columns_go_in_chunks",),
    ),
    Fault(
        "the error of a quantised query forgets the factors that stay",
        "pgmjax.queries.rounding",
        "_round_term",
        old="size * error",
        new="error",
        tests=(
            (
                "tests/queries/test_rounding.py::test_factors_that_stay_enlarge_the_error_of_the_one_that"
                "_is_rounded"
            ),
        ),
    ),
    Fault(
        "the transpose of a weighted sum drops the coefficients",
        "pgmjax.queries.sums",
        "transposed",
        old="float(coefficient) * table",
        new="table",
        tests=("tests/queries/test_transpose.py::test_equals_the_matrix_turned",),
    ),
    Fault(
        "a conditioned model keeps the whole total",
        "pgmjax.model.base",
        "Distribution.condition",
        old="self.total * math.exp(log_share)",
        new="self.total",
        tests=("tests/model/test_graphical.py::test_conditioning_keeps_the_joint_counts",),
    ),
    Fault(
        "a conditional sums over what is given",
        "pgmjax.model.calibrated",
        "CalibratedModel.conditional",
        old="range(len(given), table.ndim)",
        new="range(len(given))",
        tests=("tests/model/test_calibrated.py::test_sixty_draws_agree_with_brute_force",),
    ),
    Fault(
        "rows of later pieces are drawn for the groups behind them",
        "pgmjax.model.sampling",
        "draw",
        old="first - 1",
        new="first",
        tests=("tests/model/test_sampling.py::test_tables_too_large_to_keep_give_rows_of_the_model_too",),
    ),
    Fault(
        "rounded rows have no random start",
        "pgmjax.model.sampling",
        "_fresh",
        old=(
            "start = np.floor((generator.random() + GOLDEN * walks) % 1 * (1 << 20)) / (1 << 20)\n"
            "return (start, start + counts)"
        ),
        new=("start = np.zeros(len(counts))\nreturn (start, start + counts)"),
        tests=("tests/model/test_sampling.py::test_counts_are_right_on_average",),
    ),
    Fault(
        "completion draws for rows that are impossible",
        "pgmjax.model.rows",
        "_draw",
        old=("_refuse(int((~possible[group]).sum()))\ncolumns = [group] * (last + 1)"),
        new="columns = [group] * (last + 1)",
        tests=("tests/model/test_completion.py::test_impossible_rows_are_counted",),
    ),
    Fault(
        "the rare codes are those below a multiple of the variance",
        "pgmjax.model.compression",
        "Compression.from_measurements",
        old="threshold * weights[name] ** (-0.5)",
        new="threshold / weights[name]",
        tests=("tests/model/test_compression.py::test_rare_values_are_those_below_the_threshold",),
    ),
    Fault(
        "the gap of a fit forgets the prior's part",
        "pgmjax.estimation.fit",
        "_result",
        old="loss + divergence",
        new="loss",
        tests=("tests/estimation/test_side_information.py::test_the_weighted_sum_is_minimised",),
    ),
    Fault(
        "the bound of a smoothed loss is raised by its slack",
        "pgmjax.estimation.solvers.loop",
        "solve_steps",
        old="result.loss - result.gap",
        new="result.loss + slack - result.gap",
        tests=("tests/estimation/test_certified_kinks.py",),
    ),
    Fault(
        "the certificate forgets the prior's weight",
        "pgmjax.estimation.solvers.objective",
        "Objective._gap_to_prior",
        old="dot(centred, point.marginals) + weight * (best - own + spent)",
        new="dot(centred, point.marginals) + best - own + spent",
        tests=(
            (
                "tests/estimation/test_fixed_marginals.py::test_a_heavy_prior_beside_fixed_marginals_is_c"
                "ertified"
            ),
        ),
    ),
    Fault(
        "multipliers move away from the fixed marginals",
        "pgmjax.estimation.fit",
        "_with_new_multipliers",
        old="host.multipliers + host.penalty * residual",
        new="host.multipliers - host.penalty * residual",
        tests=("tests/estimation/test_fixed_marginals.py::test_squared_loss",),
    ),
    Fault(
        "all rows of a batch take the first row's total",
        "pgmjax.estimation.batch",
        "row_totals",
        old="[estimate_total(domain, row)[0] for row in rows]",
        new="[estimate_total(domain, rows[0])[0]] * len(rows)",
        tests=("tests/estimation/test_batch.py::test_totals_are_estimated_row_by_row",),
    ),
    Fault(
        "a warm start counts the potential it replaces twice",
        "pgmjax.estimation.start",
        "_log_weight_of_others",
        old=(
            "tables[number] = np.zeros_like(tables[number])\n"
            "try:\n"
            "    ...\n"
            "except ModelTooLargeError:\n"
            "    ..."
        ),
        new=("try:\n    ...\nexcept ModelTooLargeError:\n    ..."),
        tests=("tests/estimation/test_warm_start.py::test_a_split_clique_leaves_its_marginals",),
    ),
    Fault(
        "the slack of smoothed L1 is half of what it may be",
        "pgmjax.estimation.losses.linear",
        "BoundL1.slack",
        old="2",
        new="4",
        tests=("tests/estimation/losses/test_contract.py::test_smoothing_lies_below_by_at_most_the_slack",),
    ),
    Fault(
        "merged answers add twice the loss between them",
        "pgmjax.estimation.losses.linear",
        "_scaled",
        old="0.5 * apart.reshape(len(totals), -1).sum(axis=1)",
        new="apart.reshape(len(totals), -1).sum(axis=1)",
        tests=(
            (
                "tests/estimation/losses/test_linear.py::test_repeated_cells_merge_into_their_weighted_me"
                "an_under_l2"
            ),
        ),
    ),
    Fault(
        "the gap looks for the worst assignment",
        "pgmjax.estimation.solvers.objective",
        "Objective.gap",
        old="-centred",
        new="centred",
        tests=("tests/estimation/test_estimator.py::test_warm_start_continues_where_the_model_was",),
    ),
    Fault(
        "the gap takes a prior's tables for costs",
        "pgmjax.estimation.solvers.objective",
        "Objective.gap",
        old="self if self.fixed is None else dataclasses.replace(self, fixed=self.support())",
        new="self",
        tests=(
            (
                "tests/estimation/solvers/test_contract.py::test_the_certificate_of_a_linear_loss_is_the_"
                "distance_itself"
            ),
        ),
    ),
    Fault(
        "what the host sets to zero is not counted",
        "pgmjax.inference.ops.host_sweep",
        "_ScaledPasses._count",
        old="math.exp(min(math.log(lost) - kept, 0.0))",
        new="0.0",
        tests=(
            "tests/inference/oracles/test_host.py",
            "tests/inference/oracles/test_host_contraction.py",
            "tests/inference/oracles/test_choose.py",
            "tests/kernels/test_products.py",
        ),
    ),
    Fault(
        "averaged gradients take steps of half the curvature",
        "pgmjax.estimation.solvers.mirror_descent",
        "DualAveraging.step",
        old="4",
        new="2",
        tests=(
            "tests/estimation/solvers/test_contract.py::test_averaged_marginals_have_the_rate_that_is_proved",
        ),
    ),
    Fault(
        "feasibility is not asked of zeros together",
        "pgmjax.estimation.feasibility",
        "_feasible",
        old=(
            "if not np.isfinite(best + scale):\n    return False\ntargets = [c.probabilities for c in fixed]"
        ),
        new="targets = [c.probabilities for c in fixed]",
        tests=("tests/estimation/test_feasibility.py::test_the_smallest_conflict_is_named_and_nothing_else",),
    ),
    Fault(
        "proportional fitting looks at the last marginal only",
        "pgmjax.estimation.feasibility",
        "proportional_fit",
        old="max(distance, off)",
        new="off",
        tests=("tests/estimation/test_feasibility.py::test_the_verdict_is_that_of_a_linear_program",),
    ),
    Fault(
        "a Gram matrix counts each pair of terms once",
        "pgmjax.strategies.grams",
        "query_terms",
        old="1.0 if others is blocks else 2.0",
        new="1.0",
        tests=("tests/strategies/test_fixed.py::test_gram_matrices_of_products_and_sums",),
    ),
    Fault(
        "the split of a budget takes the other norm's power",
        "pgmjax.strategies.choose",
        "served",
        old="1 / 3 if norm == 'l1' else 1 / 2",
        new="1 / 2 if norm == 'l1' else 1 / 3",
        tests=("tests/strategies/test_least_squares.py::test_the_split_of_opt_plus_is_the_best",),
    ),
    Fault(
        "weighted marginals under L2 share rho by weights, not squares",
        "pgmjax.strategies.choose",
        "_marginals",
        old="weights[list(places)] ** (1 if norm == 'l1' else 2)",
        new="weights[list(places)]",
        tests=(
            (
                "tests/strategies/test_least_squares.py::test_no_move_between_the_shares_of_weighted_marg"
                "inals_helps"
            ),
        ),
    ),
    Fault(
        "the bootstrap forgets its bias",
        "pgmjax.uncertainty.bootstrap",
        "pooled_errors",
        old="bias = max(float(np.mean(excess[group])), 0.0)",
        new="bias = 0.0",
        tests=("tests/uncertainty/test_bootstrap.py",),
    ),
    Fault(
        "redrawn Laplace noise takes the deviation for the scale",
        "pgmjax.measurements.noise",
        "ContinuousNoise.of_stddev",
        old="stddev / cls(1.0).stddev",
        new="stddev",
        tests=("tests/uncertainty/test_bootstrap.py::test_redrawn_noise_has_the_stated_mean_and_deviation",),
    ),
    Fault(
        "what is known without noise is left out of least squares",
        "pgmjax.uncertainty.linear",
        "_System.answers",
        old="self.answered.values - self.answered.ask(self.known.worth)",
        new="self.answered.values",
        tests=("tests/uncertainty/test_linear.py::test_a_public_total_is_a_measurement_without_noise",),
    ),
    Fault(
        "the curvature of a region is not divided by its weight",
        "pgmjax.estimation.region_fit",
        "_curvature",
        old="loss.bind(domain, group, total, 'float64').lipschitz() / weights[number]",
        new="loss.bind(domain, group, total, 'float64').lipschitz()",
        tests=("tests/estimation/test_region_fit.py",),
    ),
    Fault(
        "the first code counts as unknown in a row's probability",
        "pgmjax.model.mixture",
        "MixtureModel.log_probability",
        old="codes[:, None] >= 0",
        new="codes[:, None] > 0",
        tests=("tests/model/test_mixture.py::test_log_probability_of_rows_known_in_part",),
    ),
    Fault(
        "of several starts the worst end is kept",
        "pgmjax.estimation.mixture_fit",
        "fit_mixture",
        old="end.loss < best.loss",
        new="end.loss > best.loss",
        tests=("tests/estimation/test_mixture_fit.py::test_the_best_of_restarts_is_kept",),
    ),
    Fault(
        "a new direction enters the inverse with the wrong power of its length",
        "pgmjax.measurements.least_squares",
        "Information.append",
        old="square ** 2",
        new="square",
        tests=("tests/history/bayes/test_blue.py::test_rows_one_by_one_equal_all_at_once",),
    ),
    Fault(
        "the expected size of Gaussian noise is corrected upwards",
        "pgmjax.measurements.noise",
        "DiscreteGaussian.mean_absolute",
        old="self.scale - 1 / (12 * self.scale)",
        new="self.scale + 1 / (12 * self.scale)",
        tests=("tests/measurements/test_noise.py",),
    ),
    Fault(
        "a penalty is not scaled with the weights of examples",
        "pgmjax.learning.linear",
        "least_squares",
        old="penalty / weights.max()",
        new="penalty",
        tests=("tests/learning/test_linear.py::test_coefficients_are_those_of_numpy",),
    ),
    Fault(
        "the bell curves of a basis are narrower than their width says",
        "pgmjax.learning.linear",
        "_features",
        old="2 * width ** 2",
        new="width ** 2",
        tests=("tests/learning/test_gaussian_basis.py::test_predictions_are_the_formula",),
    ),
    Fault(
        "the bound of a trained model forgets a factor of two",
        "pgmjax.learning.predictor",
        "model_bound",
        old="math.log(2 * hypotheses / beta) / (2 * count)",
        new="math.log(2 * hypotheses / beta) / count",
        tests=("tests/learning/test_selection.py::test_the_model_bound_is_hoeffdings",),
    ),
    Fault(
        "scaled answers keep their unscaled deviations",
        "pgmjax.learning.predictor",
        "_scaled",
        old="return (answers / training_set.scales, stddevs / training_set.scales)",
        new="return (answers / training_set.scales, stddevs)",
        tests=(
            "tests/learning/test_predictor.py::test_answers_of_scaled_queries_weigh_by_the_noise_of_one_unit",
        ),
    ),
    Fault(
        "inputs of one name and other costs are one",
        "pgmjax.measurements.inputs",
        "merged",
        old="(each.answers or each.name, str(each.cost), each.secure)",
        new="each.answers or each.name",
        tests=("tests/measurements/test_inputs.py",),
    ),
    Fault(
        "a file is secure if one of its inputs is",
        "pgmjax.measurements.inputs",
        "marks",
        old="all(stated)",
        new="any(stated)",
        tests=("tests/measurements/test_inputs.py",),
    ),
    Fault(
        "only the first measurement's inputs are those of a fit",
        "pgmjax.measurements.inputs",
        "of_measurements",
        old="(each.inputs for each in measurements)",
        new="[each.inputs for each in measurements][:1]",
        tests=("tests/measurements/test_inputs.py",),
    ),
)
