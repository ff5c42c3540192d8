"""Faults in tables, what is known of them, accounts, noise and discovery."""

from fault import Fault

FAULTS = (
    Fault(
        "a bounded table is read in any order of its batches",
        "pgmjax.data.bounding",
        "BoundedSource.batches",
        old=(
            "def batches(self, names: Sequence[str], ordered: bool=False) -> Iterator[Batch]:\n"
            "    beyond = self._left_out()\n"
            "    outside = int(beyond.of_units.sum()) - beyond.number\n"
            "    first = 0\n"
            "    for batch in self._source.unsettled(names, ordered=True):\n"
            "        ..."
        ),
        new=(
            "def batches(self, names: Sequence[str], ordered: bool=False) -> Iterator[Batch]:\n"
            "    beyond = self._left_out()\n"
            "    outside = int(beyond.of_units.sum()) - beyond.number\n"
            "    first = 0\n"
            "    for batch in self._source.unsettled(names, ordered=ordered):\n"
            "        ..."
        ),
        tests=(
            "tests/data/test_bounding.py::test_records_are_left_out_in_the_order_in_which_they_are_numbered",
        ),
    ),
    Fault(
        "records outside the domain and beyond the bound are left out twice",
        "pgmjax.data.bounding",
        "BoundedSource.batches",
        old="found.dropped - outside",
        new="found.dropped",
        tests=("tests/privacy/test_left_out.py::test_the_exact_numbers_are_those_of_pandas",),
    ),
    Fault(
        "dropped records of a person have the noise of one record",
        "pgmjax.privacy.left_out",
        "_counted",
        old="1 if unit is None else unit.max_records",
        new="1",
        tests=("tests/audit/test_units.py",),
    ),
    Fault(
        "a person with more records than any should have moves what is left out beyond its noise",
        "pgmjax.privacy.left_out",
        "PlannedLeftOut.exact",
        old="beyond if self.largest_unit is None else np.minimum(beyond, self.moved)",
        new="beyond",
        tests=("tests/audit/test_units.py",),
    ),
    Fault(
        "counting what is left out is not taken from the budget of the run",
        "pgmjax.mechanisms.base",
        "Mechanism._parts",
        old="whole.part(whole.remaining - kept) if kept else whole",
        new="whole",
        tests=("tests/privacy/test_left_out.py",),
    ),
    Fault(
        "keys of records that a bound left out are drawn for",
        "pgmjax.privacy.partition",
        "find_keys",
        old=(
            "keys = [key for key, count in zip(coder.keys, exact[FIRST:], strict=False) if count]\n"
            "exact = np.append(exact[:FIRST], exact[FIRST:][exact[FIRST:] > 0])"
        ),
        new="keys = [key for key, count in zip(coder.keys, exact[FIRST:], strict=False)]",
        tests=("tests/privacy/test_unit.py::test_keys_of_records_left_out_are_no_candidates",),
    ),
    Fault(
        "noise for units of several records is that of one record",
        "pgmjax.privacy.accounting.calibration",
        "_ask",
        old="records == 1",
        new="records >= 1",
        tests=(
            "tests/privacy/accounting/test_calibration.py::"
            "test_a_unit_of_three_records_needs_three_times_the_noise",
        ),
    ),
    Fault(
        "answers with insecure noise say that it is secure",
        "pgmjax.privacy.private_table",
        "PrivateTable._input",
        old="self.secure",
        new="True",
        tests=(
            "tests/release/test_run_folder.py",
            "tests/release/test_interrupts.py",
            "tests/release/test_inputs.py",
            "tests/mechanisms/test_release_together.py",
        ),
    ),
    Fault(
        "discovery counts in whatever files are there now",
        "pgmjax.discovery.discover",
        "_Search._measure",
        old="self._table.under(attributes, like=self._look)",
        new="self._table.under(attributes)",
        tests=("tests/discovery/test_discovery.py::test_all_steps_of_a_search_read_the_same_files",),
    ),
    Fault(
        "discovery finds bins in whatever files are there now",
        "pgmjax.discovery.discover",
        "_Search.cells",
        old="self._table.under(probed, like=self._look)",
        new="self._table.under(probed)",
        tests=("tests/discovery/test_discovery.py::test_all_steps_of_a_search_read_the_same_files",),
    ),
    Fault(
        "discovery finds labels in whatever files are there now",
        "pgmjax.discovery.discover",
        "_Search.keys",
        old="key_column(self._table, column.name, self._look)",
        new="key_column(self._table, column.name)",
        tests=("tests/discovery/test_discovery.py::test_all_steps_of_a_search_read_the_same_files",),
    ),
    Fault(
        "sibling tables choose other records of a person each",
        "pgmjax.privacy.private_table",
        "PrivateTable.__init__",
        old="self._choice_key() if choice is None else choice",
        new="self._choice_key()",
        tests=("tests/privacy/test_unit.py::test_all_tables_of_a_run_choose_the_same_records",),
    ),
    Fault(
        "a table in other codes does not know the choice of its records",
        "pgmjax.privacy.private_table",
        "PrivateTable.over",
        old="PrivateTable(data, *given, choice=self._choice)",
        new="PrivateTable(data, *given)",
        tests=("tests/privacy/test_unit.py::test_all_tables_of_a_run_choose_the_same_records",),
    ),
    Fault(
        "a table as its holder defined it loses the numbers of its records",
        "pgmjax.data.bounding",
        "BoundedSource.under",
        old="BoundedSource(self._source.under(definition), self.unit, self._records, self._key, self._rows)",
        new="BoundedSource(self._source.under(definition), self.unit, self._records, self._key)",
        tests=("tests/data/test_bounding.py::test_the_choice_is_made_before_rows_outside_are_dropped",),
    ),
    Fault(
        "the choice in a ledger follows from what is public",
        "pgmjax.privacy.ledger.journal",
        "HeldTable.choice_key",
        old="ledger._key()",
        new="b'public'",
        tests=("tests/privacy/test_unit.py::test_a_ledger_keeps_the_unit_and_the_choice",),
    ),
    Fault(
        "a charge for secure noise takes answers of another",
        "pgmjax.privacy.ledger.journal",
        "LedgerJournal.begin",
        old="self._secure and (not secure)",
        new="False",
        tests=("tests/release/test_inputs.py::test_a_charge_for_secure_noise_is_for_no_other",),
    ),
    Fault(
        "a second discovery on one account is admitted",
        "pgmjax.privacy.ledger.journal",
        "HeldTable._admit_discovery",
        old="finder and finder != [key]",
        new="False",
        tests=(
            "tests/privacy/ledger/test_open_columns.py::test_what_is_found_becomes_the_domain_of_the_account",
        ),
    ),
    Fault(
        "names of units that memory does not hold are read in half",
        "pgmjax.data.files",
        "FileSource._units",
        old="[(2 * of, part), (2 * of, part + of)]",
        new="[(2 * of, part)]",
        tests=(
            "tests/data/test_nothing_stays.py::test_names_of_units_that_memory_does_not_hold_are_grouped_in_parts",
        ),
    ),
    Fault(
        "a projected domain keeps the old order of attributes",
        "pgmjax.data.domain",
        "Domain.project",
        old="{name: self._by_name[name] for name in as_clique(self, clique)}",
        new="{name: a for name, a in self._by_name.items() if name in as_clique(self, clique)}",
        tests=("tests/data/test_domain.py::test_sizes_in_every_order",),
    ),
    Fault(
        "cells of large histograms are numbered in 16 bits",
        "pgmjax.data.counting",
        "Histograms.add",
        old="16",
        new="18",
        tests=("tests/data/test_counting.py::test_counts_against_a_plain_loop",),
    ),
    Fault(
        "a value on the last edge falls behind the last bin",
        "pgmjax.data.encoding",
        "Coder.codes_of_numbers",
        old="values == edges[-1]",
        new="values > edges[-1]",
        tests=("tests/data/test_encoding.py::test_columns_follow_the_rules_of_values",),
    ),
    Fault(
        "a single value on an edge falls into the bin below",
        "pgmjax.data.encoding",
        "Coder._bin",
        old="bisect.bisect_right(edges, value)",
        new="max(bisect.bisect_left(edges, value), 1)",
        tests=("tests/data/test_encoding.py::test_columns_follow_the_rules_of_values",),
    ),
    Fault(
        "texts are digested without their lengths",
        "pgmjax.data.fingerprint",
        "_text",
        old=("_size(keyed, len(text))\nkeyed.update(text)"),
        new="keyed.update(text)",
        tests=("tests/data/test_fingerprint.py::test_a_name_does_not_run_on_into_what_follows_it",),
    ),
    Fault(
        "the conversion of a divergence divides by the order and not one less",
        "pgmjax.privacy.accounting.renyi",
        "_terms",
        old="-(math.log(delta) + np.log(orders)) / (orders - 1.0)",
        new="-(math.log(delta) + np.log(orders)) / orders",
        tests=(
            "tests/privacy/accounting/test_renyi.py::test_epsilon_against_dp_accounting_on_the_same_orders",
        ),
    ),
    Fault(
        "permute-and-flip is charged the rho of the exponential mechanism",
        "pgmjax.privacy.accounting.events",
        "Selection.rho",
        old="8 if self.method == 'exponential' else 2",
        new="8",
        tests=(
            "tests/privacy/accounting/test_privacy_events.py::test_selection_by_the_exponential_mechanism_uses_its_bounded_range",
        ),
    ),
    Fault(
        "Laplace noise on several answers is counted once for each size of move",
        "pgmjax.privacy.accounting.events",
        "LaplaceEvent.renyi",
        old="{shift: shifts.count(shift) for shift in shifts}",
        new="dict.fromkeys(shifts, 1)",
        tests=(
            "tests/privacy/accounting/test_divergence.py::test_laplace_noise_on_several_answers_costs_the_sum_over_all_of_them",
        ),
    ),
    Fault(
        "loss distributions forget equal events",
        "pgmjax.privacy.accounting.composition",
        "_parts",
        old="parts['gaussian', sigma, shift] += count",
        new="parts['gaussian', sigma, shift] = count",
        tests=(
            "tests/privacy/accounting/test_composition.py::test_pld_of_shifts_is_not_below_the_optimistic_one",
        ),
    ),
    Fault(
        "the adaptive filter stops at the order of the largest cap",
        "pgmjax.privacy.accounting.renyi",
        "filter_order",
        old="allowed / orders",
        new="allowed",
        tests=("tests/privacy/accounting/test_renyi.py::test_the_order_of_a_filter_suits_gaussians",),
    ),
    Fault(
        "a budget compares each spend alone with its cap",
        "pgmjax.privacy.budget",
        "Budget._check",
        old="self._spent + cost",
        new="cost",
        tests=("tests/privacy/test_budget.py::test_a_budget_adds_up_to_its_cap_and_not_beyond",),
    ),
    Fault(
        "a table that is not valid is charged for",
        "pgmjax.privacy.private_table",
        "PrivateTable._check_before_charge",
        old="not self._data.registered and (request is None or not self._is_journaled(request))",
        new="False",
        tests=(
            "tests/privacy/test_private_table.py::test_a_spend_comes_before_the_counts_and_noise_before_both",
        ),
    ),
    Fault(
        "the weight of a weighted table is public",
        "pgmjax.privacy.private_table",
        "PrivateTable.public_count",
        old="self._data.weighted",
        new="self._data.weighted and self._relation is not Relation.REPLACE_ONE",
        tests=(
            "tests/privacy/test_private_table.py::test_the_count_is_public_only_where_records_are_replaced",
        ),
    ),
    Fault(
        "rejection accepts the bound itself",
        "pgmjax.privacy.opendp",
        "uniform",
        old="words[words < bound]",
        new="words[words <= bound]",
        tests=("tests/privacy/test_backends.py::test_answers_follow_their_channel",),
    ),
    Fault(
        "seeded Gaussian noise is accepted by another ratio",
        "pgmjax.privacy.seeded",
        "SeededBackend._gaussian",
        old="scale ** 2 / width",
        new="scale / width",
        tests=("tests/privacy/test_backends.py::test_goodness_of_fit_with_power",),
    ),
    Fault(
        "noise on rounded similarities is scaled for unrounded ones",
        "pgmjax.privacy.ratings",
        "_whole",
        old="math.ceil(step / GRID) + 1",
        new="math.ceil(step / GRID)",
        tests=(
            "tests/privacy/test_ratings.py::test_the_sensitivity_of_an_inner_product_counts_its_rounding",
        ),
    ),
    Fault(
        "a threshold test asks half the noise of its distances",
        "pgmjax.privacy.threshold",
        "ThresholdTest.__init__",
        old="2 * moved",
        new="moved",
        tests=("tests/privacy/test_threshold.py::test_nothing_but_the_answers_depends_on_the_table",),
    ),
    Fault(
        "a lie may repeat the truth",
        "pgmjax.privacy.response",
        "answered",
        old="others >= hidden",
        new="others > hidden",
        tests=("tests/privacy/test_response.py::test_every_other_category_is_one_lie",),
    ),
    Fault(
        "a resumed run answers for the first records again",
        "pgmjax.privacy.responding",
        "Reader.block",
        old="number - self._next",
        new="0",
        tests=("tests/privacy/test_responding.py::test_an_interrupted_run_goes_on_where_it_stopped",),
    ),
    Fault(
        "the variance of an answer takes the value for its square",
        "pgmjax.local.channel",
        "Channel.variance",
        old="self.gap * value ** 2",
        new="self.gap * value",
        tests=("tests/local/test_channel.py::test_largest_variance_is_that_of_the_worst_indicator",),
    ),
    Fault(
        "the bias of a grid is that of a whole cell",
        "pgmjax.local.continuous",
        "Grid.bias_bound",
        old="self.bits + 1",
        new="self.bits",
        tests=("tests/local/test_continuous.py::test_the_best_grid_has_the_least_bound",),
    ),
    Fault(
        "covariances of exclusive answers lose the whole",
        "pgmjax.local.marginals",
        "_pairs",
        old="shift * (cells[:, None] + cells[None, :]) - shift ** 2 * total",
        new="shift * (cells[:, None] + cells[None, :])",
        tests=("tests/local/test_marginals.py::test_mean_variance_and_covariance_by_enumeration",),
    ),
    Fault(
        "mutual information takes the smaller bound unless both sides are binary",
        "pgmjax.privacy.scores.bayes",
        "MutualInformation._move",
        old="min(parents, child) <= 2",
        new="max(parents, child) > 2",
        tests=(
            "tests/privacy/test_bayes_scores.py::test_no_neighbour_moves_a_score_beyond_what_is_declared",
        ),
    ),
    Fault(
        "a stack of scores forgets their grids in its sensitivity",
        "pgmjax.privacy.scores.counts",
        "Stack._sensitivity",
        old="score.sensitivity(domain, relation, max_weight).value * 2 ** (self.bits - score.bits)",
        new="score.sensitivity(domain, relation, max_weight).value",
        tests=("tests/privacy/test_scores.py::test_declared_sensitivities_are_attained",),
    ),
    Fault(
        "costs are rounded down to the ledger's units",
        "pgmjax.privacy.ledger.meter",
        "Meter._units",
        old="math.ceil",
        new="math.floor",
        tests=("tests/privacy/ledger/test_meter.py::test_rounding_is_against_the_analyst",),
    ),
    Fault(
        "each order of a Renyi account may use the whole delta",
        "pgmjax.privacy.ledger.meter",
        "caps_of",
        old="delta * part",
        new="delta",
        tests=("tests/privacy/ledger/test_meter.py::test_the_parts_of_delta_sum_to_it",),
    ),
    Fault(
        "verification does not add up what is kept as totals",
        "pgmjax.privacy.ledger.verify",
        "_sums",
        old="counted != number or min(costs) < 1 or sums != json.loads(totals)",
        new="counted != number or min(costs) < 1",
        tests=("tests/privacy/ledger/test_verify.py::test_changes_are_named",),
    ),
    Fault(
        "the threshold of a key forgets the records of its unit",
        "pgmjax.privacy.partition",
        "key_threshold",
        old="records + high + 1",
        new="high + 1",
        tests=(
            "tests/privacy/test_partition.py::test_a_key_that_one_unit_alone_has_shows_with_at_most_delta",
        ),
    ),
    Fault(
        "the threshold of a key takes a unit for one record",
        "pgmjax.privacy.partition",
        "key_threshold",
        old="float(delta) / records",
        new="float(delta)",
        tests=(
            "tests/privacy/test_partition.py::test_a_key_that_one_unit_alone_has_shows_with_at_most_delta",
        ),
    ),
    Fault(
        "pieces that are joined at the calendar's end lose their share",
        "pgmjax.discovery.discover",
        "_within_calendar",
        old="shares.get(place, 0) + share",
        new="share",
        tests=("tests/discovery/test_discovery.py::test_pieces_beyond_the_calendar_are_joined_at_its_ends",),
    ),
    Fault(
        "files may change while a table is registered",
        "pgmjax.data.dataset",
        "Dataset.snapshot",
        old=("self._check_unchanged(before)\ntally.check(self.rows_outside, self._may_be_empty)"),
        new="tally.check(self.rows_outside, self._may_be_empty)",
        tests=("tests/privacy/ledger/test_held_table.py::test_files_must_not_change_while_they_are_read",),
    ),
    Fault(
        "files may change while records are read",
        "pgmjax.data.dataset",
        "Dataset.records",
        old=(
            "for batch in self._source.batches(as_clique(self.domain, names), ordered=True):\n"
            "    ...\n"
            "self._check_unchanged(self._stamp)"
        ),
        new=("for batch in self._source.batches(as_clique(self.domain, names), ordered=True):\n    ..."),
        tests=("tests/privacy/ledger/test_held_table.py",),
    ),
    Fault(
        "files may change while a table is counted",
        "pgmjax.data.dataset",
        "Dataset._scan",
        old=("self._check_unchanged(self._stamp)\ntally.check(self.rows_outside, self._may_be_empty)"),
        new="tally.check(self.rows_outside, self._may_be_empty)",
        tests=("tests/privacy/ledger/test_held_table.py",),
    ),
    Fault(
        "a charged account takes another unit of privacy",
        "pgmjax.privacy.ledger.ledger",
        "Ledger.set_domain",
        old="known.charges and asked != whom",
        new="False",
        tests=("tests/privacy/test_unit.py",),
    ),
    Fault(
        "a domain on which answers rest is replaced",
        "pgmjax.privacy.ledger.ledger",
        "Ledger.set_domain",
        old=(
            "defined and ledger_account.rests_on_definition(connection, name) "
            "and (not completes(account, row))"
        ),
        new="False",
        tests=("tests/privacy/ledger/test_open_columns.py",),
    ),
)
