"""Seeded faults in what lies below the models: tables, inference, queries and privacy."""

from source import Fault

TABLES = (
    Fault(
        "a projected domain keeps the old order of attributes",
        "domain",
        "return Domain({name: self._by_name[name] for name in as_clique(self, clique)})",
        "return Domain({name: a for name, a in self._by_name.items() if name in as_clique(self, clique)})",
    ),
    Fault(
        "cells of large histograms are numbered in 16 bits",
        "counting",
        "dtype = np.dtype(np.uint16 if counts.size < 1 << 16 else np.intp)",
        "dtype = np.dtype(np.uint16 if counts.size < 1 << 18 else np.intp)",
    ),
    Fault(
        "tables over the same attributes are added with inverted axes",
        "clique vectors",
        "clique, table = first, before + table.transpose([clique.index(name) for name in first])",
        "clique, table = first, before + table.transpose([first.index(name) for name in clique])",
    ),
    Fault(
        "a value on the last edge falls behind the last bin",
        "encoding",
        "raw[values == edges[-1]] = len(edges) - 2",
        "raw[values > edges[-1]] = len(edges) - 2",
    ),
    Fault(
        "a single value on an edge falls into the bin below",
        "encoding",
        "return bisect.bisect_right(edges, value) - 1 if edges[0] <= value < edges[-1] else OUTSIDE",
        "return max(bisect.bisect_left(edges, value), 1) - 1 if edges[0] <= value < edges[-1] else OUTSIDE",
    ),
    Fault(
        "texts are digested without their lengths",
        "dataset",
        ("    _size(keyed, len(text))\n    keyed.update(text)"),
        "    keyed.update(text)",
    ),
    Fault(
        "a comparison counts the missing bucket as a number",
        "query text",
        "points: list[float] = list(range(attribute.size - attribute.missing))",
        "points: list[float] = list(range(attribute.size))",
    ),
    Fault(
        "gathered marginals are weighted by standard deviations",
        "measurements",
        "variance = np.square(measurement.row_stddevs()).reshape(full)",
        "variance = measurement.row_stddevs().reshape(full)",
    ),
)

PLANS = (
    Fault(
        "growth takes off cells of a variable that had none",
        "plan",
        "return (-self.forest.cells(here), (-here,)) if used and here & ~across == 0 else (0, ())",
        "return (-self.forest.cells(here), (-here,)) if here & ~across == 0 else (0, ())",
    ),
    Fault(
        "the forecast of memory at the peak keeps cotangents too long",
        "plan",
        "alive -= 2 * result  # with its cotangent",
        "alive -= result  # with its cotangent",
    ),
    Fault(
        "the way between two variables starts at the first clique that holds one",
        "plan",
        "first = max(i for i, x in enumerate(way) if masks[x] >> u & 1)",
        "first = min(i for i, x in enumerate(way) if masks[x] >> u & 1)",
    ),
    Fault(
        "a cover weighs a region by its commonest attribute",
        "plan",
        "weights = np.array([max((1 / degree[v] for v in region), default=1.0) for region in graph.outer])",
        "weights = np.array([min((1 / degree[v] for v in region), default=1.0) for region in graph.outer])",
    ),
    Fault(
        "slices start at their number and not at their first value",
        "plan",
        "found.append(part * width)",
        "found.append(part)",
    ),
)

INFERENCE = (
    Fault(
        "tiles of a log product are padded with 0 instead of minus infinity",
        "ops",
        (
            "    table = jnp.pad(table, padding, constant_values=-jnp.inf)\n"
            "    shape = (*table.shape[:axis], count, tile, *table.shape[axis + 1 :])"
        ),
        (
            "    table = jnp.pad(table, padding)\n"
            "    shape = (*table.shape[:axis], count, tile, *table.shape[axis + 1 :])"
        ),
    ),
    Fault(
        "the clip limit of the fast product lets lost terms pass",
        "ops",
        "return inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype) / float(numbers.eps)",
        "return inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype)",
    ),
    Fault(
        "a contraction forgets the scale of all steps but the last",
        "ops",
        ("        scale = scale + top\n        alive[number] = (result, step.kept)"),
        ("        scale = top\n        alive[number] = (result, step.kept)"),
    ),
    Fault(
        "the running sum of the kernel is rescaled by the inverse factor",
        "kernels",
        ("        total = total * jnp.exp2(top - higher)\n        for term in tile:"),
        ("        total = total * jnp.exp2(higher - top)\n        for term in tile:"),
    ),
    Fault(
        "the fused kernel reads flat indices with the first axis fastest",
        "kernels",
        ("    for axis in reversed(axes):\n        # operands are"),
        ("    for axis in axes:\n        # operands are"),
    ),
    Fault(
        "calibration forgets the scales of its messages",
        "oracles",
        "math.log(message.table) + message.scale",
        "math.log(message.table)",
    ),
    Fault(
        "the levels' derivative drops the log-partition's part",
        "oracles",
        "return None, weights[0] * marginals + turned",
        "return None, turned",
    ),
    Fault(
        "the maximum over slices is that of the last slice",
        "oracles",
        "return jnp.maximum(top, jnp.asarray(value)), None",
        "return jnp.asarray(value), None",
    ),
    Fault(
        "inaccurate fast products are never run again exactly",
        "oracles",
        "if self.fast and float(error_bound) > np.finfo(dtype).eps:",
        "if self.fast and float(error_bound) > np.finfo(dtype).max:",
    ),
    Fault(
        "the bound of the region oracle counts every region once",
        "oracles",
        "value = jnp.sum(weight * log_scales(maps, x))",
        "value = jnp.sum(log_scales(maps, x))",
    ),
    Fault(
        "the host tree takes joint tables for conditional ones",
        "oracles",
        "table = summed(self.calibration.given[n], clique, kept)",
        "table = summed(self.calibration.table(n), clique, kept)",
    ),
    Fault(
        "message passing subtracts messages of minus infinity",
        "oracles",
        "message = jnp.where(jnp.isfinite(messages[i]), messages[i], 0)",
        "message = messages[i]",
    ),
)

QUERIES = (
    Fault(
        "the tail of a wide discrete Gaussian lacks the half step",
        "distributions",
        "return math.erfc((half_width + 0.5) / (self.scale * math.sqrt(2)))",
        "return math.erfc(half_width / (self.scale * math.sqrt(2)))",
    ),
    Fault(
        "the tail of the discrete Laplace starts one too early",
        "distributions",
        "return 2 * math.exp(-(half_width + 1) / self.scale) / (1 + math.exp(-1 / self.scale))",
        "return 2 * math.exp(-half_width / self.scale) / (1 + math.exp(-1 / self.scale))",
    ),
    Fault(
        "the variance of the total takes the standard deviation for the variance",
        "total",
        "return float(rows @ values), float(np.sum((rows * stddevs) ** 2))",
        "return float(rows @ values), float(np.sum(rows**2 * stddevs))",
    ),
    Fault(
        "the largest move of one answer forgets records that change their weight",
        "queries",
        "return (spread if max_weight is None else max(spread, entry)) * weight",
        "return spread * weight",
    ),
    Fault(
        "all ranges cover the middle code once too seldom at odd sizes",
        "queries",
        "return ((size + 1) // 2) * (size // 2 + 1)",
        "return (size // 2) * (size // 2 + 1)",
    ),
    Fault(
        "pairs of columns with large absolute products are kept",
        "queries",
        "pairs = pairs[:, _best(pairs, 3, smallest=True)]",
        "pairs = pairs[:, _best(pairs, 3, smallest=False)]",
    ),
    Fault(
        "the bound of a distance takes every matrix for non-negative",
        "queries",
        "return max_column * (2 if power == 1 or nonnegative else 4)",
        "return max_column * 2",
    ),
    Fault(
        "the error of a quantised query forgets the factors that stay",
        "queries",
        "return _Rounded(Product(rounded), Fraction(size * error), grids, whole)",
        "return _Rounded(Product(rounded), Fraction(error), grids, whole)",
    ),
    Fault(
        "the transpose of a weighted sum drops the coefficients",
        "queries",
        ("        result += float(coefficient) * table\n    return result"),
        ("        result += table\n    return result"),
    ),
)

PRIVACY = (
    Fault(
        "the conversion of a divergence divides by the order and not one less",
        "accounting",
        "second = -(math.log(delta) + np.log(orders)) / (orders - 1.0)",
        "second = -(math.log(delta) + np.log(orders)) / orders",
    ),
    Fault(
        "permute-and-flip is charged the rho of the exponential mechanism",
        "accounting",
        'return self.epsilon**2 / (8 if self.method == "exponential" else 2)',
        "return self.epsilon**2 / 8",
    ),
    Fault(
        "Laplace noise on several answers is counted once for each size of move",
        "accounting",
        "kinds = {shift: shifts.count(shift) for shift in shifts}",
        "kinds = dict.fromkeys(shifts, 1)",
    ),
    Fault(
        "loss distributions forget equal events",
        "accounting",
        'parts["gaussian", sigma, shift] += count',
        'parts["gaussian", sigma, shift] = count',
    ),
    Fault(
        "the adaptive filter stops at the order of the largest cap",
        "accounting",
        "return int(np.argmax(allowed / orders))",
        "return int(np.argmax(allowed))",
    ),
    Fault(
        "a budget compares each spend alone with its cap",
        "privacy",
        "        if self._spent + cost > self._cap:",
        "        if cost > self._cap:",
    ),
    Fault(
        "a table that is not valid is charged for",
        "privacy",
        ("        if not self._data.registered and (request is None or not self._is_kept(request)):\n"),
        ("        if False:\n"),
    ),
    Fault(
        "the weight of a weighted table is public",
        "privacy",
        (
            "        if self._data.weighted:\n"
            "            raise ValueError(\n"
            '                "The total weight of a weighted table is private'
        ),
        (
            "        if self._data.weighted and self._relation is not Relation.REPLACE_ONE:\n"
            "            raise ValueError(\n"
            '                "The total weight of a weighted table is private'
        ),
    ),
    Fault(
        "rejection accepts the bound itself",
        "privacy",
        "kept = words[words < bound][: size - filled]",
        "kept = words[words <= bound][: size - filled]",
    ),
    Fault(
        "seeded Gaussian noise is accepted by another ratio",
        "privacy",
        "excess = np.abs(proposal) - scale**2 / width",
        "excess = np.abs(proposal) - scale / width",
    ),
    Fault(
        "noise on rounded similarities is scaled for unrounded ones",
        "privacy",
        "return min(math.ceil(step / GRID) + 1, round(high / GRID) - round(low / GRID))",
        "return min(math.ceil(step / GRID), round(high / GRID) - round(low / GRID))",
    ),
    Fault(
        "a threshold test asks half the noise of its distances",
        "privacy",
        "backend.laplace(moved, cost / 2), backend.laplace(2 * moved, cost / 2)",
        "backend.laplace(moved, cost / 2), backend.laplace(moved, cost / 2)",
    ),
)

RESPONSES = (
    Fault(
        "a lie may repeat the truth",
        "response",
        "answers[lies] = others + (others >= hidden)",
        "answers[lies] = others + (others > hidden)",
    ),
    Fault(
        "a resumed run answers for the first records again",
        "response",
        ("            self._take()\n            self._next += 1\n        self._next += 1"),
        ("            self._next += 1\n        self._next += 1"),
    ),
    Fault(
        "the variance of an answer takes the value for its square",
        "companion",
        "second = self.other * squares + self.gap * value**2",
        "second = self.other * squares + self.gap * value",
    ),
    Fault(
        "the bias of a grid is that of a whole cell",
        "companion",
        "/ (1 << self.bits + 1)",
        "/ (1 << self.bits)",
    ),
    Fault(
        "covariances of exclusive answers lose the whole",
        "perturbed",
        "products += shift * (cells[:, None] + cells[None, :]) - shift**2 * total",
        "products += shift * (cells[:, None] + cells[None, :])",
    ),
)

SCORES = (
    Fault(
        "mutual information takes the smaller bound unless both sides are binary",
        "scores",
        "if min(parents, child) <= 2:",
        "if max(parents, child) > 2:",
    ),
    Fault(
        "a stack of scores forgets their grids in its sensitivity",
        "scores",
        "score.sensitivity(domain, relation, max_weight).value * 2 ** (self.bits - score.bits)",
        "score.sensitivity(domain, relation, max_weight).value",
    ),
    Fault(
        "counts of either sign are taken for monotone",
        "scores",
        "return Relation.parse(relation) is Relation.ADD_REMOVE and self.query.is_nonnegative(domain)",
        "return Relation.parse(relation) is Relation.ADD_REMOVE",
    ),
)

LEDGER = (
    Fault(
        "costs are rounded down to the ledger's units",
        "ledger",
        "return min(max(math.ceil(cost * 10**self.places), 1), LIMIT)",
        "return min(max(math.floor(cost * 10**self.places), 1), LIMIT)",
    ),
    Fault(
        "each order of a Renyi account may use the whole delta",
        "ledger",
        "delta * part, np.array([order]))[0]))",
        "delta, np.array([order]))[0]))",
    ),
    Fault(
        "verification does not add up what is kept as totals",
        "ledger",
        "if counted != number or min(costs) < 1 or sums != json.loads(totals):",
        "if counted != number or min(costs) < 1:",
    ),
)

BOUNDARY = (
    Fault(
        "the secret of a run is a hash of its public request",
        "run folder",
        "            key = os.urandom(32)\n            record = {",
        "            key = bytes.fromhex(asked)\n            record = {",
    ),
    Fault(
        "a bounded table is read in any order of its batches",
        "bounding",
        "for batch in self._source.unsettled(names, ordered=True):",
        "for batch in self._source.unsettled(names, ordered=ordered):",
    ),
    Fault(
        "keys of records that a bound left out are drawn for",
        "partition",
        "zip(coder.keys, exact[FIRST:], strict=False) if count]\n"
        "        exact = np.append(exact[:FIRST], exact[FIRST:][exact[FIRST:] > 0])",
        "zip(coder.keys, exact[FIRST:], strict=False)]",
    ),
    Fault(
        "a frame's number of rows comes out where no other is asked for",
        "synthesizer",
        "                self._release, self._frame = release, held\n",
        "                self._release, self._frame = release, held\n"
        "                drawn = self.sample\n"
        "                self.sample = lambda n=len(frame), *given, **more: drawn(n, *given, **more)\n",
    ),
    Fault(
        "answers with insecure noise say that it is secure",
        "private table",
        '            "answers of a private table",\n            self.secure,',
        '            "answers of a private table",\n            True,',
    ),
    Fault(
        "the last answer of a run says of what noise all are",
        "run folder",
        "self.secure = secure and self.secure is not False",
        "self.secure = secure",
    ),
    Fault(
        "a stored answer forgets that its noise is insecure",
        "run folder",
        "{_SECURE if secure else _INSECURE}.npy",
        "{_SECURE}.npy",
    ),
    Fault(
        "discovery counts in whatever files are there now",
        "discovery",
        "data = self._table.under(attributes, like=self._look)",
        "data = self._table.under(attributes)",
    ),
    Fault(
        "discovery finds bins in whatever files are there now",
        "discovery",
        "data = self._table.under(probed, like=self._look)",
        "data = self._table.under(probed)",
    ),
    Fault(
        "discovery finds labels in whatever files are there now",
        "discovery",
        "data, coder = key_column(self._table, column.name, self._look)",
        "data, coder = key_column(self._table, column.name)",
    ),
    Fault(
        "what was found is measured in whatever files are there now",
        "mechanism",
        "data = table.under(attributes, found.rows_outside, like=look)",
        "data = table.under(attributes, found.rows_outside)",
    ),
    Fault(
        "sibling tables choose other records of a person each",
        "private table",
        "self._choice = self._choice_key() if choice is None else choice",
        "self._choice = self._choice_key()",
    ),
    Fault(
        "a table in other codes does not know the choice of its records",
        "private table",
        "table = PrivateTable(data, *given, choice=self._choice)",
        "table = PrivateTable(data, *given)",
    ),
    Fault(
        "a table as its holder defined it loses the numbers of its records",
        "bounding",
        "BoundedSource(self._source.under(definition), self.unit, self._records, self._key, self._rows)",
        "BoundedSource(self._source.under(definition), self.unit, self._records, self._key)",
    ),
    Fault(
        "the choice in a ledger follows from what is public",
        "ledger",
        'hmac.new(ledger._key(), b"pgmjax records',
        'hmac.new(b"public", b"pgmjax records',
    ),
    Fault(
        "measurements of an unfinished run can be read by others",
        "run folder",
        '            open_private(partial, "wb").close()\n',
        "",
    ),
    Fault(
        "the ledger takes a folder's insecure answers for secure ones",
        "run folder",
        "secure and self._folder.secure)",
        "secure)",
    ),
    Fault(
        "a charge for secure noise takes answers of another",
        "ledger",
        "if self._secure and not secure:",
        "if False:",
    ),
    Fault(
        "a second discovery on one account is admitted",
        "ledger",
        "if finder and finder != [key]:",
        "if False:",
    ),
    Fault(
        "an answer that the ledger held says of what noise the folder is",
        "run folder",
        "                secure = secure and self._inner.secure is True\n",
        "",
    ),
    Fault(
        "perturbed rows lie in the order of the table",
        "perturb",
        'row_order="sorted",\n                out',
        'row_order="table",\n                row_order_is_public=True,\n                out',
    ),
    Fault(
        "a temporary copy of a table keeps its name",
        "private files",
        "with tempfile.TemporaryFile() if _nameless() else _named() as file:",
        "with tempfile.NamedTemporaryFile() if _nameless() else _named() as file:",
    ),
    Fault(
        "the holder's log follows links",
        "private files",
        'getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)',
        'getattr(os, "O_NONBLOCK", 0)',
    ),
    Fault(
        "the holder's log keeps the mode of the file that is there",
        "private files",
        "    if found.st_mode & _OTHERS:\n",
        "    if False:\n",
    ),
    Fault(
        "a sweep removes the copies of living processes",
        "private files",
        "        return _lock(handle)\n",
        "        return True\n",
    ),
    Fault(
        "names of units that memory does not hold are read in half",
        "files",
        "parts += [(2 * of, part), (2 * of, part + of)]",
        "parts += [(2 * of, part)]",
    ),
)

FAULTS = (
    *BOUNDARY,
    *TABLES,
    *PLANS,
    *INFERENCE,
    *QUERIES,
    *PRIVACY,
    *RESPONSES,
    *SCORES,
    *LEDGER,
)
