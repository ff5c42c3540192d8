"""Faults in mechanisms, releases, commands and the audit."""

from fault import Fault

FAULTS = (
    Fault(
        "the secret of a run is a hash of its public request",
        "pgmjax.release.run_folder",
        "RunFolder.bind",
        old=(
            "key = os.urandom(32)\nrecord = {'request': asked, 'key': key.hex(), 'table': data.identity(key)}"
        ),
        new=(
            "key = bytes.fromhex(asked)\n"
            "record = {'request': asked, 'key': key.hex(), 'table': data.identity(key)}"
        ),
        tests=(
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "a frame's number of rows comes out where no other is asked for",
        "pgmjax.synthesizer",
        "Synthesizer.fit",
        old=(
            "job, held = self._described_job(frame, domain, discover, workload)\n"
            "if self._attempt is not None and self._attempt.spent:\n"
            "    ...\n"
            "with self._folder_of(job) as folder:\n"
            "    ...\n"
            "self._attempt = None"
        ),
        new=(
            "job, held = self._described_job(frame, domain, discover, workload)\n"
            "if self._attempt is not None and self._attempt.spent:\n"
            "    ...\n"
            "with self._folder_of(job) as folder:\n"
            "    ...\n"
            "    drawn = self.sample\n"
            "    self.sample = lambda n=len(frame), *given, **more: drawn(n, *given, **more)\n"
            "self._attempt = None"
        ),
        tests=("tests/test_synthesizer.py",),
    ),
    Fault(
        "the last answer of a run says of what noise all are",
        "pgmjax.release.run_folder",
        "FolderJournal.answer",
        old="secure and self.secure is not False",
        new="secure",
        tests=("tests/release/test_inputs.py",),
    ),
    Fault(
        "a stored answer forgets that its noise is insecure",
        "pgmjax.release.run_folder",
        "RunFolder.store",
        old="_SECURE if secure else _INSECURE",
        new="_SECURE",
        tests=(
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "what was found is measured in whatever files are there now",
        "pgmjax.discovery.discover",
        "DiscoveryRun.find",
        old="self.table.under(attributes, found.rows_outside, like=self.look)",
        new="self.table.under(attributes, found.rows_outside)",
        tests=("tests/discovery/test_discovery.py::test_all_steps_of_a_search_read_the_same_files",),
    ),
    Fault(
        "measurements of an unfinished run can be read by others",
        "pgmjax.release.run_folder",
        "RunFolder.record",
        old="open_private(partial, 'wb').close()",
        new="pass",
        tests=(
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "the ledger takes a folder's insecure answers for secure ones",
        "pgmjax.release.run_folder",
        "FolderJournal.begin",
        old="secure and self._folder.secure",
        new="secure",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "an answer that the ledger held says of what noise the folder is",
        "pgmjax.release.run_folder",
        "FolderJournal.answer",
        old=(
            "values = self._inner.answer(request, compute if kept is None else lambda: kept)\n"
            "secure = secure and self._inner.secure is True"
        ),
        new="values = self._inner.answer(request, compute if kept is None else lambda: kept)",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "perturbed rows lie in the order of the table",
        "pgmjax.cli.perturb",
        "PerturbJob.run",
        old="if self.is_ordered: ...\nelse: ...",
        new="given |= {'row_order': 'table', 'row_order_is_public': True}",
        tests=("tests/cli/test_perturb.py",),
    ),
    Fault(
        "a temporary copy of a table keeps its name",
        "pgmjax._internal.private_files",
        "copied",
        old="tempfile.TemporaryFile",
        new="tempfile.NamedTemporaryFile",
        tests=("tests/data/test_nothing_stays.py",),
    ),
    Fault(
        "the holder's log follows links",
        "pgmjax._internal.private_files",
        "open_private",
        old="getattr(os, 'O_NOFOLLOW', 0) | getattr(os, 'O_NONBLOCK', 0)",
        new="getattr(os, 'O_NONBLOCK', 0)",
        tests=("tests/_internal/test_private_files.py",),
    ),
    Fault(
        "the holder's log keeps the mode of the file that is there",
        "pgmjax._internal.private_files",
        "refuse_shared",
        old="found.st_mode & _OTHERS",
        new="False",
        tests=("tests/_internal/test_private_files.py",),
    ),
    Fault(
        "a sweep removes the copies of living processes",
        "pgmjax._internal.private_files",
        "_is_abandoned",
        old="lock(handle)",
        new="pass",
        tests=("tests/data/test_nothing_stays.py",),
    ),
    Fault(
        "an appended answer is not divided by its noise",
        "pgmjax.history.bayes.blue",
        "BestLinearUnbiased.append",
        old="entries / distribution.stddev",
        new="entries",
        tests=("tests/history/bayes/test_blue.py::test_rows_one_by_one_equal_all_at_once",),
    ),
    Fault(
        "costs of queries that fit no table are not added up",
        "pgmjax.history.session.costs",
        "CellAccount.added",
        old="self.rest + rate * sensitivity",
        new="max(self.rest, rate * sensitivity)",
        tests=(
            (
                "tests/history/session/test_costs.py::test_with_less_room_it_bounds_the_cost_and_stays_be"
                "low_the_plain_sum"
            ),
        ),
    ),
    Fault(
        "the mass a convolution cuts off counts once for equal noises",
        "pgmjax.history.bayes.inference",
        "convolve",
        old="masses.sum() ** count",
        new="masses.sum()",
        tests=(
            (
                "tests/history/bayes/test_choose.py::test_probability_calculation_loses_at_most_gamma_and"
                "_says_how_much"
            ),
        ),
    ),
    Fault(
        "a kernel estimate of a known total keeps the mean in its distances",
        "pgmjax.history.kernel.pca",
        "System.squared_norms",
        old="norms if self.total is None else norms - means ** 2",
        new="norms",
        tests=("tests/history/kernel/test_pca.py::test_fitted_is_the_answer_to_the_own_rows",),
    ),
    Fault(
        "the larger root of an inverse Gaussian draw is taken too often",
        "pgmjax.history.bayes.posterior",
        "_inverse_gaussian",
        old="uniform * (mean + smaller) <= mean",
        new="uniform * (mean + smaller) <= smaller",
        tests=("tests/history/bayes/test_posterior.py::test_the_worked_example_given_all_answers",),
    ),
    Fault(
        "a posterior mean of counts forgets the noise's scale",
        "pgmjax.history.prior",
        "posterior_mean",
        old="scale * fall",
        new="fall",
        tests=("tests/history/test_prior.py::test_posterior_means_are_integrals",),
    ),
    Fault(
        "a session tells the longer of two intervals",
        "pgmjax.history.session.state",
        "SessionState.measured",
        old="other[1] - other[0] < ends[1] - ends[0]",
        new="other[1] - other[0] > ends[1] - ends[0]",
        tests=("tests/history/session/test_session_faults.py::test_a_tiny_delta_is_met_and_answered_again",),
    ),
    Fault(
        "a dual point leaves the penalty out of what it has reached",
        "pgmjax.history.max_entropy.dual",
        "Dual.point",
        old="divergence + self.penalty.value(residuals)",
        new="divergence",
        tests=("tests/history/max_entropy/test_fit.py::test_one_query_has_a_closed_form",),
    ),
    Fault(
        "a log line gives the number of records",
        "pgmjax.mechanisms.run",
        "Run.measure",
        old="_LOG.info('%s: measured %d tables', self.mechanism.name, len(measured))",
        new="_LOG.info('%s: read %d', self.mechanism.name, self.table._data.count())",
        tests=("tests/crossed/test_neighbours.py::test_nothing_but_answers_is_left_of_a_table",),
    ),
    Fault(
        "AIM lets models grow with what one round costs alone",
        "pgmjax.mechanisms.aim",
        "AIM._rounds",
        old="budget.spent + now.cost",
        new="now.cost",
        tests=("tests/mechanisms/test_aim.py::test_a_model_stays_within_the_limit_at_every_time",),
    ),
    Fault(
        "annealing multiplies rho by the factor of epsilon",
        "pgmjax.mechanisms.aim",
        "Round.next",
        old="2 if self.unit == 'epsilon' else 4",
        new="2",
        tests=("tests/mechanisms/test_adaptive.py::test_annealing_halves_noise",),
    ),
    Fault(
        "answers to one marginal are merged by standard deviations",
        "pgmjax.mechanisms.adaptive",
        "averaged",
        old="1 / part.row_stddevs() ** 2",
        new="1 / part.row_stddevs()",
        tests=("tests/mechanisms/test_adaptive.py::test_merged_measurements_have_the_same_optimum",),
    ),
    Fault(
        "the first table of a network is normalised within its parents",
        "pgmjax.mechanisms.conditionals",
        "network_model",
        old="tuple(range(counts.ndim)) if place == 0 else (counts.ndim - 1,)",
        new="(counts.ndim - 1,)",
        tests=(
            (
                "tests/mechanisms/test_privbayes.py::test_without_noise_both_ways_give_the_distribution_o"
                "f_the_tree"
            ),
        ),
    ),
    Fault(
        "the usefulness of a parent set forgets that noise hits two cells",
        "pgmjax.mechanisms.parent_sets",
        "mean_noise",
        old="Fraction(2 * marginals)",
        new="Fraction(marginals)",
        tests=("tests/mechanisms/test_privbayes.py::test_the_parts_of_the_budget_sum_to_the_whole",),
    ),
    Fault(
        "a draw of the dual game is charged half its epsilon",
        "pgmjax.mechanisms.dual_query_game",
        "Game.draw_epsilon",
        old="2 * self.step",
        new="self.step",
        tests=(
            "tests/mechanisms/test_dual_query_game.py",
            "tests/mechanisms/test_dual_query.py",
            "tests/mechanisms/test_dual_query_cost.py",
        ),
    ),
    Fault(
        "predicted errors of a strategy take twice the variance",
        "pgmjax.mechanisms.hdmm",
        "HDMM.expected_errors",
        old="float(np.asarray(each.distribution.variance))",
        new="2 * float(np.asarray(each.distribution.variance))",
        tests=("tests/mechanisms/test_hdmm.py::test_errors_are_what_was_forecast",),
    ),
    Fault(
        "the encoding of a pair depends on the order of its records",
        "pgmjax.mechanisms.mldp_similarity",
        "encode_pairs",
        old="first + second",
        new="first - second",
        tests=(
            "tests/mechanisms/test_mldp_similarity.py::test_vectors_do_not_depend_on_the_order_of_a_pair",
        ),
    ),
    Fault(
        "a spanning tree leaves a third of the budget where there is nothing to choose",
        "pgmjax.mechanisms.mst",
        "_parts",
        old="sum((number > 0 for number in numbers))",
        new="len(numbers)",
        tests=("tests/mechanisms/test_mst.py::test_public_cliques_that_join_all_leave_nothing_to_choose",),
    ),
    Fault(
        "multiplicative weights take steps of twice the length",
        "pgmjax.mechanisms.multiplicative_weights",
        "exponents",
        old="transposed(query, domain, cut) / (2 * total * column)",
        new="transposed(query, domain, cut) / (total * column)",
        tests=(
            (
                "tests/mechanisms/test_multiplicative_weights.py::test_an_update_is_the_formula_and_keeps"
                "_the_potential_inequality"
            ),
        ),
    ),
    Fault(
        "online weights split each update the other way round",
        "pgmjax.mechanisms.online_weights",
        "OnlineWeights.parts",
        old="(each * (1 - self.split), each * self.split)",
        new="(each * self.split, each * (1 - self.split))",
        tests=("tests/mechanisms/test_online_weights.py::test_the_split_is_the_share_that_measures",),
    ),
    Fault(
        "the budget of plain marginals ignores weights",
        "pgmjax.mechanisms.measure_once",
        "Marginals.plan",
        old="self.split == 'equal'",
        new="self.split in ('equal', 'weighted')",
        tests=("tests/mechanisms/test_marginals.py::test_weighted_split_is_in_proportion_to_weights",),
    ),
    Fault(
        "the slopes of a fit leave out the prior",
        "pgmjax.gradients.answer_coordinates",
        "DifferentiableProblem.residuals",
        old="numbers.total * self.roots(numbers) * missed + numbers.prior_weight * point",
        new="numbers.total * self.roots(numbers) * missed",
        tests=(
            "tests/gradients/test_differentiable_fit.py::test_implicit_gradients_are_those_of_finite_differences",
        ),
    ),
    Fault(
        "a Newton step counts the total once in the curvature",
        "pgmjax.gradients.solve",
        "Standing.bent",
        old="self.total ** 2",
        new="self.total",
        tests=(
            "tests/gradients/test_differentiable_fit.py::test_implicit_gradients_are_those_of_finite_differences",
        ),
    ),
    Fault(
        "answers of a release stand beside the noise of other queries",
        "pgmjax.release.tables",
        "_Answers.blocks",
        old="measured.get((query.clique, query))",
        new="next((each for key, each in measured.items() if key[0] == query.clique), None)",
        tests=("tests/release/test_tables.py::test_the_noise_beside_an_answer_is_that_of_the_same_query",),
    ),
    Fault(
        "the total of a weighted table is said to be public",
        "pgmjax.release.release",
        "Release.total_public",
        old="self.relation is Relation.REPLACE_ONE and (not self.weighted)",
        new="self.relation is Relation.REPLACE_ONE",
        tests=("tests/release/test_release.py::test_weights_are_never_said_to_be_public",),
    ),
    Fault(
        "a report says that the number of records is public under add-remove",
        "pgmjax.release.statement",
        "cost",
        old="'is secret' if record['relation'] == 'add-remove' else 'is public'",
        new="'is public' if record['relation'] == 'add-remove' else 'is secret'",
        tests=("tests/release/test_report.py::test_promise_names_what_happens_to_the_number_of_records",),
    ),
    Fault(
        "bounds of the whole table know nothing of the noise of what is left out",
        "pgmjax.release.whole_table",
        "of_query",
        old="np.square(found.stddevs) + most**2 * variance",
        new="np.square(found.stddevs)",
        tests=("tests/release/test_whole_table.py",),
    ),
    Fault(
        "a look is written into a release, which is published",
        "pgmjax.release.look",
        "check_page",
        old="target.resolve().parents",
        new="target.parents",
        tests=("tests/release/test_look.py::test_what_cannot_be_is_refused",),
    ),
    Fault(
        "total variation is not halved",
        "pgmjax.release.look",
        "total_variation",
        old="np.abs(ours / ours.sum() - true / true.sum()).sum() / 2",
        new="np.abs(ours / ours.sum() - true / true.sum()).sum()",
        tests=("tests/sweeps/test_errors.py::test_errors_are_those_of_brute_force",),
    ),
    Fault(
        "trials of a sweep share their seed",
        "pgmjax.sweeps.grid",
        "Group.cells",
        old="(Cell(key, trial, int(key[:15], 16)) for trial, key in enumerate(keys))",
        new="(Cell(key, trial, int(keys[0][:15], 16)) for trial, key in enumerate(keys))",
        tests=("tests/sweeps/test_cells.py::test_keys_and_seeds_are_distinct_and_repeatable",),
    ),
    Fault(
        "the lower bound of a probability is that of one event less",
        "pgmjax.audit.blackbox",
        "at_least",
        old="special.betaincinv(np.maximum(held, 1), of - held + 1, alpha)",
        new="special.betaincinv(np.maximum(held, 1), of - held + 1, 1 - alpha)",
        tests=("tests/audit/test_blackbox.py::test_correct_laplace_noise_never_alarms",),
    ),
    Fault(
        "the black box audit forgets that it looks from two sides",
        "pgmjax.audit.blackbox",
        "",
        old="4",
        new="1",
        tests=("tests/audit/test_blackbox.py::test_power_against_wrong_scales",),
    ),
    Fault(
        "a chi-square test has one degree of freedom too many",
        "pgmjax.audit.goodness",
        "_chi_square",
        old="seen.size - 1",
        new="seen.size",
        tests=(
            "tests/audit/test_goodness.py",
            "tests/audit/test_mechanism.py",
            "tests/audit/test_processes.py",
            "tests/audit/test_secure_noise.py",
        ),
    ),
    Fault(
        "weighted answers of a foreign object keep their noise",
        "pgmjax.adapters.mbi",
        "measurement",
        old="stddev / weights",
        new="np.broadcast_to(stddev, weights.shape)",
        tests=("tests/adapters/test_mbi.py::test_weighted_cells_become_a_marginal_of_other_precisions",),
    ),
    Fault(
        "a foreign factor is transposed the wrong way round",
        "pgmjax.adapters.mbi",
        "_as_table",
        old="[names.index(name) for name in clique]",
        new="[clique.index(name) for name in names]",
        tests=(
            "tests/adapters/test_mbi.py::test_a_factor_may_have_its_axes_in_another_order_than_its_clique",
        ),
    ),
    Fault(
        "a share of the rows is taken of one and not of the total",
        "pgmjax.release.accuracy",
        "Reported.share",
        old="self.estimates / total",
        new="self.estimates",
        tests=("tests/cli/test_query.py::test_condition",),
    ),
    Fault(
        "the command line fits in float32 by default",
        "pgmjax.cli.options.shared",
        "",
        old=(
            "option('--dtype', default='float64', choices=['float32', 'float64'], "
            "help='the precision of the fit (float64); float32 needs half the memory')"
        ),
        new=(
            "option('--dtype', default='float32', choices=['float32', 'float64'], "
            "help='the precision of the fit (float64); float32 needs half the memory')"
        ),
        tests=("tests/cli/test_release.py::test_fits_are_in_float64_unless_asked",),
    ),
    Fault(
        "a refused run counts as begun",
        "pgmjax.release.run_folder",
        "FolderJournal.begin",
        old=("self._folder.begun = before\nraise"),
        new="raise",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "what a killed write left of an answer stays in the folder",
        "pgmjax.release.run_folder",
        "RunFolder._open",
        old="(folder / _ANSWERS).glob('.*.partial')",
        new="()",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "the lock of a folder that was removed meanwhile counts",
        "pgmjax.release.run_folder",
        "RunFolder._open",
        old="_stands_at(lock, folder)",
        new="lock",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "two threads take one step of a run at a time",
        "pgmjax.release.run_folder",
        "RunFolder.step_at_a_time",
        old=("with self._step:\n    ..."),
        new="...",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "an answer that says nothing of its noise is secure",
        "pgmjax.release.run_folder",
        "RunFolder.step",
        old="noise == _SECURE",
        new="noise != _INSECURE",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "one secure answer makes a folder secure",
        "pgmjax.release.run_folder",
        "RunFolder.secure",
        old="all((path.stem.endswith(f'-{_SECURE}') for path in (self.folder / _ANSWERS).glob('*.npy')))",
        new="any((path.stem.endswith(f'-{_SECURE}') for path in (self.folder / _ANSWERS).glob('*.npy')))",
        tests=(
            "tests/release/test_inputs.py",
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
        ),
    ),
    Fault(
        "an attempt goes on with the run of another request",
        "pgmjax.release.run_folder",
        "UnfinishedRun.bind",
        old="self._after is not None and self._after.asked != self.asked",
        new="False",
        tests=(
            "tests/release/test_interrupts.py",
            "tests/release/test_run_folder.py",
        ),
    ),
    Fault(
        "an attempt draws anew where its answers are gone",
        "pgmjax.release.run_folder",
        "UnfinishedRun.bind",
        old="before is not None and self.answered and (not before.is_dir())",
        new="False",
        tests=(
            "tests/release/test_interrupts.py",
            "tests/release/test_run_folder.py",
        ),
    ),
    Fault(
        "an earlier release of another relation is found out after the run",
        "pgmjax.job",
        "Job.run",
        old="check_addable(earlier.inputs, self.named.relation, Keeping(ledger).unit_of(held).unit)",
        new="pass",
        tests=("tests/release/test_inputs.py",),
    ),
    Fault(
        "a release leaves out the inputs of its prior",
        "pgmjax.release.release",
        "Release.with_prior",
        old="merged(self.inputs, fit.model.inputs)",
        new="self.inputs",
        tests=("tests/release/test_inputs.py",),
    ),
    Fault(
        "a new private file may replace one that is there",
        "pgmjax._internal.private_files",
        "open_private",
        old="os.O_EXCL",
        new="os.O_TRUNC",
        tests=("tests/_internal/test_private_files.py",),
    ),
    Fault(
        "the holder's log may have a second name",
        "pgmjax._internal.private_files",
        "refuse_shared",
        old="found.st_nlink > 1",
        new="False",
        tests=("tests/_internal/test_private_files.py",),
    ),
    Fault(
        "an account takes the domain of another table",
        "pgmjax.cli.ledger",
        "_set_domain",
        old="ledger.digest_of(table) not in (account.digest, *account.versions)",
        new="False",
        tests=("tests/cli/test_ledger.py",),
    ),
    Fault(
        "a rho of one input is stated for all",
        "pgmjax.release.statement",
        "Spent.of",
        old="all(('rho' in cost for cost in costs))",
        new="any(('rho' in cost for cost in costs))",
        tests=("tests/release/test_inputs.py",),
    ),
    Fault(
        "searches for labels are told by the largest delta alone",
        "pgmjax.release.statement",
        "of_inputs",
        old="sum((exact('delta', each.label_delta) for each in inputs), Fraction(0))",
        new="max((exact('delta', each.label_delta) for each in inputs), default=Fraction(0))",
        tests=("tests/measurements/test_inputs.py",),
    ),
    Fault(
        "costs on two units are added up",
        "pgmjax.release.statement",
        "check_addable",
        old="(each.relation, each.unit) != wanted",
        new="each.relation != wanted[0]",
        tests=("tests/release/test_inputs.py",),
    ),
)
