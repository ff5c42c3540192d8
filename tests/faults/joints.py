"""Seeded faults at the joints: what a run leaves, what a release is made of, and who may go on with it."""

from source import Fault

FAULTS = (
    Fault(
        "a refused run counts as begun",
        "run folder",
        "            self._folder.begun = before\n            raise",
        "            raise",
    ),
    Fault(
        "what a killed write left of an answer stays in the folder",
        "run folder",
        'for left in (folder / _ANSWERS).glob(".*.partial"):',
        "for left in ():",
    ),
    Fault(
        "the lock of a folder that was removed meanwhile counts",
        "run folder",
        "            if lock is None or _stands_at(lock, folder):\n",
        "            if lock is None or lock:\n",
    ),
    Fault(
        "two threads take one step of a run at a time",
        "run folder",
        "        with self._step:\n            yield",
        "        yield",
    ),
    Fault(
        "an answer that says nothing of its noise is secure",
        "run folder",
        "allow_pickle=False)), noise == _SECURE",
        "allow_pickle=False)), noise != _INSECURE",
    ),
    Fault(
        "one secure answer makes a folder secure",
        "run folder",
        'return all(path.stem.endswith(f"-{_SECURE}")',
        'return any(path.stem.endswith(f"-{_SECURE}")',
    ),
    Fault(
        "an attempt goes on with the run of another request",
        "unfinished runs",
        "        if self._after is not None and self._after.asked != self.asked:\n",
        "        if False:\n",
    ),
    Fault(
        "an attempt draws anew where its answers are gone",
        "unfinished runs",
        "        if before is not None and self.answered and not before.is_dir():\n",
        "        if False:\n",
    ),
    Fault(
        "the threshold of a key forgets the records of its unit",
        "partition",
        "return records + high + 1 + _MARGIN",
        "return high + 1 + _MARGIN",
    ),
    Fault(
        "the threshold of a key takes a unit for one record",
        "partition",
        "target = float(delta) / records",
        "target = float(delta)",
    ),
    Fault(
        "pieces that are joined at the calendar's end lose their share",
        "discovery",
        "shares[place] = shares.get(place, 0) + share",
        "shares[place] = share",
    ),
    Fault(
        "files may change while a table is registered",
        "dataset",
        "        self._check_unchanged(before)\n",
        "",
    ),
    Fault(
        "files may change while records are read",
        "dataset",
        "        self._check_unchanged(self._stamp)\n\n    def _scan",
        "\n    def _scan",
    ),
    Fault(
        "files may change while a table is counted",
        "dataset",
        "        self._check_unchanged(self._stamp)\n        tally.check(",
        "        tally.check(",
    ),
    Fault(
        "an earlier release of another relation is found out after the run",
        "job",
        "check_addable(earlier.inputs, self.named.relation, self.chosen._held(held, ledger).unit)",
        "pass",
    ),
    Fault(
        "inputs of one name and other costs are one",
        "inputs",
        "found.setdefault((each.answers or each.name, str(each.cost), each.secure), each)",
        "found.setdefault(each.answers or each.name, each)",
    ),
    Fault(
        "a file is secure if one of its inputs is",
        "inputs",
        '"true" if all(stated) else "false"',
        '"true" if any(stated) else "false"',
    ),
    Fault(
        "only the first measurement's inputs are those of a fit",
        "inputs",
        "return merged(*(each.inputs for each in measurements))",
        "return merged(*[each.inputs for each in measurements][:1])",
    ),
    Fault(
        "a release leaves out the inputs of its prior",
        "release",
        "inputs = merged(self.inputs, fit.model.inputs)",
        "inputs = self.inputs",
    ),
    Fault(
        "a new private file may replace one that is there",
        "private files",
        'made = os.O_APPEND if "a" in mode else os.O_EXCL',
        'made = os.O_APPEND if "a" in mode else os.O_TRUNC',
    ),
    Fault(
        "the holder's log may have a second name",
        "private files",
        "    if found.st_nlink > 1:\n",
        "    if False:\n",
    ),
    Fault(
        "an account takes the domain of another table",
        "ledger command",
        "        if ledger.digest_of(table) not in (account.digest, *account.versions):\n",
        "        if False:\n",
    ),
    Fault(
        "a charged account takes another unit of privacy",
        "ledger",
        "        if known.charges and asked != whom:\n",
        "        if False:\n",
    ),
    Fault(
        "a domain on which answers rest is replaced",
        "ledger",
        "if defined and ledger_account.rests_on_definition(connection, name) and not completes(kept, row):",
        "if False:",
    ),
    Fault(
        "a rho of one input is stated for all",
        "statement",
        'composed = bool(costs) and all("rho" in cost for cost in costs)',
        'composed = bool(costs) and any("rho" in cost for cost in costs)',
    ),
    Fault(
        "searches for labels are told by the largest delta alone",
        "statement",
        'risk = sum((exact("delta", each.label_delta) for each in inputs), Fraction(0))',
        'risk = max((exact("delta", each.label_delta) for each in inputs), default=Fraction(0))',
    ),
    Fault(
        "costs on two units are added up",
        "statement",
        "        if (each.relation, each.unit) != wanted:\n",
        "        if each.relation != wanted[0]:\n",
    ),
)
