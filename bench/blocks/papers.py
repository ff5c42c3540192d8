"""The figures and tables of the five papers: what each shows, what remakes it, whether ours does the same.

A verdict is never typed: a judge reads it off the lines and says what it rests on.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Sequence

import harness

from blocks import paper000, paper002, paper003, paper004
from blocks.paper001 import NAMES, Lines, similarity_errors
from blocks.text import Line, by, markdown, newest

DONE, BETTER, DIFFERS, NOT = "done", "better", "differs", "not reproduced"
TITLES = {
    "000": "Chen, Zhou and Bhowmick 2012",
    "001": "Zhu, Xiong, Li, Zhou and Yu 2017",
    "002": "Wang, Ying and Zhang 2016",
    "003": "Xiao and Xiong 2012",
    "004": "McKenna, Sheldon and Miklau 2019",
}
Judged = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure or table of a paper.

    Attributes:
        paper: its number.
        name: as the paper calls it.
        says: what it shows, with the numbers that its text gives.
        results: names of files in bench/results.
        judge: from the lines of each file to a verdict and what it rests on.
        commands: what makes the lines, after `python bench/`.
        table: page and name of the block that has our numbers; empty for none.
        picture: in bench/results; empty for none.
        needs: what must be there to run it: data, ratings or mbi.
    """

    paper: str
    name: str
    says: str
    results: tuple[str, ...]
    judge: Callable[..., Judged]
    commands: tuple[str, ...]
    table: tuple[str, str] = ("", "")
    picture: str = ""
    needs: tuple[str, ...] = ("data",)


# 000: better answers from a history


def _curves(
    pca: Sequence[Line], entropy: Sequence[Line], kind: str, key: str
) -> dict[str, tuple[float, ...]]:
    """Errors against alpha of 5,000 queries, by approach and prior."""
    found = {}
    for line in newest(pca, "count", "kind", "prior"):
        if (line["count"], line["kind"]) == (5000, kind):
            found[f"kernel PCA, {'prior' if line['prior'] else 'none'}"] = tuple(line[key])
    some = [x for x in of_alphas(entropy) if x["kind"] == {"range": "ranges"}.get(kind, kind)]
    for (prior,), group in by(some, "prior").items():
        name = "prior" if prior == "bought" else "none"
        found[f"maximum entropy, {name}"] = tuple(line[key] for line in group)
    return found


def of_alphas(entropy: Sequence[Line]) -> list[Line]:
    """Maximum entropy of 5,000 queries by alpha; by exact gradients where chains were tried too."""
    some = [x for x in entropy if x["task"] == "alpha" and x["queries"] == paper000.MANY]
    some.sort(key=lambda x: x["solver"] == "newton")
    return sorted(newest(some, "kind", "prior", "alpha"), key=lambda x: x["alpha"])


def _told(curves: dict[str, tuple[float, ...]]) -> str:
    return "; ".join(f"{name} {min(curve):,.0f}" for name, curve in curves.items())


def past_answers(pca: Sequence[Line], entropy: Sequence[Line]) -> Judged:
    """A middle alpha is best, the prior helps."""
    curves = _curves(pca, entropy, "range", "past")
    (line,) = (x for x in newest(pca, "count", "kind", "prior") if _is(x, 5000, "range", True))
    bent = all(min(c) < min(c[0], c[-1]) for name, c in curves.items() if name.startswith("kernel"))
    helped = all(
        min(curves[f"{way}, prior"]) < min(curves[f"{way}, none"])
        for way in ("kernel PCA", "maximum entropy")
    )
    told = f"least error over alpha of 5,000 ranges: {_told(curves)}; the noise has {line['raw']:,.0f}"
    return DONE if bent and helped else DIFFERS, told


def _is(line: Line, count: int, kind: str, prior: bool) -> bool:
    return (line["count"], line["kind"], line["prior"]) == (count, kind, prior)


def new_answers(pca: Sequence[Line], entropy: Sequence[Line]) -> Judged:
    """New queries from old answers: kernel PCA needs a small alpha and a prior."""
    ranges, general = (_curves(pca, entropy, kind, "new") for kind in ("range", "general"))
    (line,) = (x for x in newest(pca, "count", "kind", "prior") if _is(x, 5000, "range", True))
    better = min(ranges["kernel PCA, prior"]) < line["raw"]
    told = f"new ranges from ranges: {_told(ranges)}; from general queries: {_told(general)}"
    return DONE if better else DIFFERS, told


def validation(pca: Sequence[Line], entropy: Sequence[Line]) -> Judged:
    """The estimate of cross-validation is too large, and its least point is nearly the best."""
    chosen = [x["chosen"] for x in newest(pca, "count", "kind", "prior") if x["prior"]]
    high = sum(x["estimate"] > x["past"] for x in chosen)
    runs = [x for x in newest(pca, "count", "kind", "prior") if x["prior"]]
    lost = max(x["chosen"]["past"] / min(min(x["past"]), x["chosen"]["past"]) - 1 for x in runs)
    lost_entropy = []
    validated = [x for x in entropy if x.get("estimate") is not None]
    for group in by(of_alphas(validated), "kind", "prior").values():
        least = min(group, key=lambda x: x["estimate"])
        lost_entropy.append(least["past"] / min(x["past"] for x in group) - 1)
    told = (
        f"kernel PCA: estimates above the error in {high} of {len(chosen)} settings, and the alpha chosen "
        "costs at "
        f"most {100 * lost:.0f} %; maximum entropy: at most {100 * max(lost_entropy):.0f} %"
    )
    return DONE if high == len(chosen) and max(lost, *lost_entropy) < 0.1 else DIFFERS, told


def by_count(pca: Sequence[Line], entropy: Sequence[Line]) -> Judged:
    """Answers of one noise: the more of them, the more they say of one another; which way errs less."""
    runs = {x["count"]: x for x in newest(pca, "count", "kind", "prior") if _is(x, x["count"], "range", True)}
    bought = [x for x in entropy if paper000.by_number(x) and x["prior"] == "bought"]
    learned = {x["queries"]: x for x in bought}
    both = sorted(runs.keys() & learned.keys())
    told = "; ".join(
        f"{count:,}: {runs[count]['chosen']['past']:,.0f} and {learned[count]['past']:,.0f}" for count in both
    )
    first, last = both[0], both[-1]
    falls = runs[first]["chosen"]["past"] > runs[last]["chosen"]["past"]
    falls = falls and learned[first]["past"] >= learned[last]["past"]
    less = sum(learned[count]["past"] < runs[count]["chosen"]["past"] for count in both)
    words = (
        f"errors of past ranges, both with a prior, kernel PCA and maximum entropy: {told}; the noise has "
        f"{runs[last]['raw']:,.0f}. Maximum entropy errs less at {less} of {len(both)} numbers"
    )
    return DONE if falls and less else DIFFERS, words


def seconds(pca: Sequence[Line], entropy: Sequence[Line]) -> Judged:
    """Kernel PCA costs the cube of the queries, maximum entropy hardly anything more."""
    runs = {
        x["count"]: x["seconds"]["kernel and pca"]["processor"]
        for x in pca
        if _is(x, x["count"], "range", True)
    }
    learned = {x["queries"]: x["seconds"] for x in entropy if x["task"] == "queries"}
    ends = [(min(x), max(x)) for x in (runs, learned)]
    told = [
        f"{x[few]:.1f} s for {few:,} queries, {x[many]:.1f} s for {many:,}"
        for x, (few, many) in zip((runs, learned), ends, strict=True)
    ]
    steep = runs[ends[0][1]] / runs[ends[0][0]] > learned[ends[1][1]] / learned[ends[1][0]]
    return DONE if steep else DIFFERS, f"kernel PCA {told[0]}; maximum entropy {told[1]}"


def distributions(lines: Sequence[Line], real: Sequence[Line]) -> Judged:
    """Errors of pairs and triples of the published rows, against randomised response."""
    at = {x["method"]: x for x in lines if x["epsilon"] == 1.0}
    ours, others = at["published rows"], [at[name] for name in ("retention replacement", "flipping")]
    best = all(ours[key] < other[key] for other in others for key in ("pairs", "triples"))
    rows = [x for x in real if x["epsilon"] == 1]
    mean = statistics.mean(x["rounded"] for x in rows)
    told = (
        f"epsilon 1, mean error of pairs {ours['pairs']:.3f} and of triples {ours['triples']:.3f}; the "
        "better "
        f"randomised response {min(x['pairs'] for x in others):,.0f} and "
        f"{min(x['triples'] for x in others):,.0f}. The "
        "table is drawn from a graphical model, which flatters maximum entropy: on real rows of Adult "
        f"{mean:.3f}"
    )
    return DONE if best else DIFFERS, told


def many_dimensions(lines: Sequence[Line]) -> Judged:
    """Ranges of one to five dimensions."""
    at = {x["method"]: x for x in lines if x["epsilon"] == 1.0}
    keys = [f"ranges_{k}" for k in range(1, 6)]
    ours = [at["published rows"][key] for key in keys]
    best = all(
        x < min(at[name][key] for name in ("retention replacement", "flipping"))
        for x, key in zip(ours, keys, strict=True)
    )
    told = ", ".join(f"{k}-D {x:,.0f}" for k, x in enumerate(ours, 1))
    flipped = [at["flipping"][key] for key in keys]
    return (
        DONE if best else DIFFERS,
        f"RMSE at epsilon 1 {told}; flipping from {flipped[0]:,.0f} to {flipped[-1]:.1e}",
    )


# 001: publish a model of queries


def learners_of_ranges(lines: Sequence[Line]) -> Judged:
    """Regression is best on the social network."""
    kept = Lines(lines)
    names = ("linear", "ridge", "gaussian-basis", "svr", "network", "bagging", "boosting")
    sizes = (25, 50, 100, 200, 400, 1000)
    errors = {
        (data, m): {n: kept.lines[data, f"random:{m}:{n}", 500, "1"]["mae"] for n in names}
        for data, m in itertools.product(("FACEBOOK", "NETTRACE"), sizes)
    }
    best = {key: min(found, key=found.__getitem__) for key, found in errors.items()}
    won = sum(best["FACEBOOK", m] in ("linear", "ridge") for m in sizes)
    other = sorted({best["NETTRACE", m] for m in sizes})
    told = f"regression is best at {won} of {len(sizes)} sizes on the social network; on NETTRACE "
    told += ", ".join(other)
    return DONE if won >= 5 else DIFFERS, told


def learners_of_similarities(lines: Sequence[Line]) -> Judged:
    """SVM is best on similarities in the paper."""
    errors = similarity_errors(lines)
    least = {name: min(x for (learner, _), x in errors.items() if learner == name) for name, _ in errors}
    order = sorted(least, key=least.__getitem__)
    told = ", ".join(f"{name.removeprefix('sklearn.')} {least[name]:.3f}" for name in order)
    return DONE if order[0] == "sklearn.SVR" else DIFFERS, f"least error of cosines on MovieLens: {told}"


def training_sizes(lines: Sequence[Line]) -> Judged:
    """The error falls with the training set, then rises."""
    kept, told, bent = Lines(lines), [], []
    for data in NAMES:
        sizes = sorted(
            int(m.split(":")[1])
            for m in kept.values(1, data=data, tests=500, epsilon="1")
            if m.endswith(":linear")
        )
        errors = {m: kept.lines[data, f"random:{m}:linear", 500, "1"]["mae"] for m in sizes}
        least = min(errors, key=errors.__getitem__)
        bent.append(sizes[0] < least < sizes[-1])
        told.append(f"{data} {errors[least]:,.0f} at m = {least}")
    return DONE if all(bent) else DIFFERS, f"least error with 500 test queries: {'; '.join(told)}"


def test_sizes(lines: Sequence[Line]) -> Judged:
    """MLDP is flat, Laplace grows linearly."""
    kept, flat, steep = Lines(lines), [], []
    for data in NAMES:
        ours = [kept.lines[data, "hb", tests, "1"]["mae"] for tests in (10, 1000)]
        theirs = [kept.lines[data, "laplace", tests, "1"]["mae"] for tests in (10, 1000)]
        flat.append(ours[1] / ours[0])
        steep.append(theirs[1] / theirs[0])
    told = (
        f"from 10 to 1,000 test queries MLDP's error changes by {min(flat):.2f} to {max(flat):.2f} times, "
        "that of "
        f"Laplace by {min(steep):.0f} to {max(steep):.0f} times"
    )
    return DONE if max(flat) < 1.2 and min(steep) > 50 else DIFFERS, told


def methods(lines: Sequence[Line]) -> Judged:
    """MLDP is below Laplace, PMW and the matrix mechanism in the paper."""
    kept = Lines(lines)
    budgets = [f"{k / 10:g}" for k in range(1, 11)]
    beaten = dict.fromkeys(("laplace", "matrix", "pmw"), 0)
    paper, number = 0, len(NAMES) * len(budgets)
    for data, budget in itertools.product(NAMES, budgets):
        ours, random = (kept.lines[data, m, 500, budget]["mae"] for m in ("hb", "random:100:linear"))
        for name in beaten:
            other = kept.best(data, name, 500, budget)
            beaten[name] += other is not None and ours < other["mae"]
        paper += random < kept.lines[data, "laplace", 500, budget]["mae"]
    told = ", ".join(f"{name} {count}" for name, count in beaten.items())
    at = {m: kept.lines["NETTRACE", m, 500, "1"]["mae"] for m in ("hb", "random:100:linear", "matrix")}
    why = (
        f"MLDP on trees is below {told} of {number} points (four tables, ten budgets), on the paper's "
        "random ranges "
        f"below Laplace at {paper}. NETTRACE at epsilon 1: {at['random:100:linear']:.0f} by the paper's "
        "training set, "
        f"{at['hb']:.0f} by ours, {at['matrix']:.1f} by a matrix mechanism that knows the queries: with a "
        "linear learner "
        "MLDP is a matrix mechanism that does not"
    )
    return DONE if beaten["matrix"] == number else DIFFERS, why


# 002: randomised response


def heterogeneity(lines: Sequence[Line]) -> Judged:
    """Randomised response does not care for the number of functions, MWEM's error grows and is larger."""
    found = {x["heterogeneity"]: x for x in paper002.mwem_worst(lines) if x["queries"] == 100}
    ours, theirs = ([found[h][key] for h in (1, 64)] for key in ("randomized-response", "mwem-paper"))
    told = (
        f"worst of {found[1]['databases']} databases, from 1 to 64 functions {ours[0]:.4f} to {ours[1]:.4f} "
        f"by randomised response, {theirs[0]:.4f} to {theirs[1]:.4f} by the paper's MWEM, which a trusted "
        "curator runs"
    )
    flat, grows = ours[1] / ours[0] < 1.25, theirs[1] / theirs[0] > 1.5
    return DONE if flat and grows and theirs[1] > ours[1] else DIFFERS, told


def query_sets(lines: Sequence[Line]) -> Judged:
    """MWEM's error grows with the number of queries in the paper."""
    found = {x["queries"]: x for x in paper002.mwem_worst(lines) if x["heterogeneity"] == 1}
    ours, theirs = ([found[q][key] for q in (10, 1000)] for key in ("randomized-response", "mwem-paper"))
    grows = theirs[1] > theirs[0]
    told = (
        f"worst of {found[10]['databases']} databases, from 10 to 1,000 queries {ours[0]:.4f} to "
        f"{ours[1]:.4f} by randomised response, {theirs[0]:.4f} to {theirs[1]:.4f} by the paper's MWEM"
    )
    told += "" if grows else ", whose error here does not grow with the queries, against the paper"
    return DONE if grows and theirs[1] > ours[1] else DIFFERS, told


def rows(lines: Sequence[Line]) -> Judged:
    """The squared error falls as one over the rows, below the bound."""
    found = newest(lines, "kind", "rows")
    slopes = [paper002.slope([x for x in found if x["kind"] == k], "mean_square") for k in paper002.KINDS]
    below = all(x["mean_square"] < x["upper_bound"] for x in found)
    told = f"slopes {slopes[0]:.3f} and {slopes[1]:.3f} of the logarithms; "
    told += f"below the bound at {'all' if below else 'some'} sizes"
    return DONE if below and all(abs(x + 1) < 0.05 for x in slopes) else DIFFERS, told


def cuts(lines: Sequence[Line]) -> Judged:
    """Worst relative error of half cuts, 10.4 to 5.4 %."""
    found = newest(lines, "vertices")
    inside = [
        x["worst_error_one_release"]["1"] <= x["paper"] <= x["worst_error_one_release"]["100"] for x in found
    ]
    told = (
        f"the printed error lies between the worst of 1 and of 100 cuts for {sum(inside)} of "
        f"{len(inside)} graphs; "
        "the paper's number of cuts and its epsilon are lost in the text at hand"
    )
    return DONE if all(inside) else DIFFERS, told


# 003: Bayesian inference


def example(lines: Sequence[Line]) -> Judged:
    """The worked example of Section 5.2."""
    line = lines[-1]
    low, high = line["interval95"]
    told = (
        f"estimate {line['theta']:.4f}, system cost {line['system_cost']:g} as printed; the 95 % interval is "
        f"[{low:.2f}, {high:.2f}], printed [-41, 125], and P(theta > 0) is {line['prob_positive']:.4f}, "
        "printed 0.88"
    )
    agrees = (round(low), round(high), round(line["prob_positive"], 2)) == (-41, 125, 0.88)
    return DONE if agrees else DIFFERS, told


def _part(lines: Sequence[Line], part: str) -> list[Line]:
    return [line for line in lines if line["part"] == part]


def blue(lines: Sequence[Line]) -> Judged:
    """Seconds of the best linear estimate: slowly with answers, fast with cells."""
    found = {(x["m"], x["n"]): x["cpu_seconds"] for x in _part(lines, "blue")}
    answers = found[2000, 100] / found[200, 100]
    cells = found[4000, 2000] / found[400, 200]
    told = (
        f"{found[2000, 100]:.3f} s for 2,000 answers over 100 cells ({answers:.0f} times those for 200), "
        f"{found[4000, 2000]:.1f} s for 4,000 over 2,000 ({cells:.0f} times those for 400 over 200)"
    )
    return DONE if cells > answers else DIFFERS, told


def distribution_sizes(lines: Sequence[Line]) -> Judged:
    """Seconds of the distribution of an answer."""
    found = {(x["m"], x["n"], x["method"]): x for x in _part(lines, "size") if x["continuous"]}
    ways = ("monte-carlo", "convolution step 1", "characteristic")
    few, many = ([found[m, 100, way]["cpu_seconds"] for way in ways] for m in (200, 1000))
    told = ", ".join(f"{way} {a:.4f} to {b:.4f} s" for way, a, b in zip(ways, few, many, strict=True))
    wide = (
        found[1000, 100, "convolution step 1"]["half_width"]
        / found[1000, 100, "characteristic"]["half_width"]
    )
    return BETTER if wide > 1 and many[2] < many[1] else DIFFERS, (
        f"from 200 to 1,000 answers {told}; the paper's grid gives intervals {wide:.0f} times as wide as "
        "the exact ones"
    )


def betas(lines: Sequence[Line]) -> Judged:
    """Time and error of the probability calculation against beta."""
    some = [x for x in _part(lines, "beta") if x.get("method") == "convolution step 1"]
    lost = [x["lost"] for x in _part(lines, "beta") if "lost" in x]
    some.sort(key=lambda x: x["beta"])
    told = (
        f"beta {some[0]['beta']:,.0f} to {some[-1]['beta']:,.0f}: {some[0]['cpu_seconds']:.3f} to "
        f"{some[-1]['cpu_seconds']:.3f} s, at most {max(lost):.1e} of the mass lost of 0.01 allowed"
    )
    return DONE if some[-1]["cpu_seconds"] > some[0]["cpu_seconds"] and max(lost) < 0.01 else DIFFERS, told


def draws(lines: Sequence[Line]) -> Judged:
    """Time and error of Monte Carlo against the number of draws."""
    some = sorted(_part(lines, "error"), key=lambda x: x["draws"])
    told = ", ".join(f"{x['draws']:,}: {x['cpu_seconds']:.1f} s and {x['root_error']:.5f}" for x in some)
    falls = all(a["root_error"] > b["root_error"] for a, b in itertools.pairwise(some))
    below = all(x["root_error"] < x["root_bound"] for x in some)
    return (
        DONE if falls and below else DIFFERS,
        f"draws, seconds and root error {told}, below Corollary 4.1's bound",
    )


def coverage(lines: Sequence[Line]) -> Judged:
    """Whether intervals hold what is said of them; the paper has no such figure."""
    found = paper003.coverage_numbers(lines)
    return (
        BETTER,
        f"within {found['apart']} of what is said, {found['number']} combinations, 100,000 histories each",
    )


def joint(lines: Sequence[Line]) -> Judged:
    """Whether simultaneous intervals hold together; the paper has no such figure."""
    found = by(_part(lines, "joint"), "intervals")
    least = {name: min(x["covered"] for x in group) for (name,), group in found.items()}
    number = len(found["simultaneous",])
    told = (
        f"all four cells at once in at least {least['simultaneous']:.4f} of 100,000 histories, 0.95 "
        f"promised, {number} combinations of noise and scale; by single intervals in at least "
        f"{least['single']:.4f}"
    )
    # three standard errors of a share of .95 among 100,000
    return BETTER if least["simultaneous"] >= 0.95 - 3 * (0.95 * 0.05 / 100_000) ** 0.5 else DIFFERS, told


def sessions(setting: str) -> Callable[[Sequence[Line]], Judged]:
    """Figure 9 or 10: cost or share answered, error and reliability, beside buying every answer."""

    def judge(lines: Sequence[Line]) -> Judged:
        groups = paper003.ends(lines)
        key = "cost" if setting == "unbounded" else "answering_ratio"
        told, better, reliable = [], [], []
        for table in ("NETTRACE", "SEARCHLOGS"):
            ours, theirs = (groups[table, setting, method] for method in ("session", "baseline"))
            means = [statistics.mean(x[key] for x in runs) for runs in (ours, theirs)]
            held = statistics.mean(x["reliability"] for x in ours)
            better.append(means[0] < means[1] if key == "cost" else means[0] > means[1])
            reliable.append(held)
            told.append(
                f"{table} {key.replace('_', ' ')} {means[0]:.2f} against {means[1]:.2f}, reliability "
                f"{held:.2f}"
            )
        numbers = [len(groups[table, setting, "session"]) for table in ("NETTRACE", "SEARCHLOGS")]
        seeds = " and ".join(map(str, dict.fromkeys(numbers)))
        kept = min(reliable) >= 0.8
        return DONE if all(better) and kept else DIFFERS, f"{'; '.join(told)}; {seeds} seeds, 0.8 promised"

    return judge


# 004: graphical models


def gains(mechanism: str) -> Callable[[Sequence[Line]], Judged]:
    """A panel of Figure 1: how many times less the graphical model errs."""

    def judge(lines: Sequence[Line]) -> Judged:
        found, told, near = paper004.cells(lines), [], []
        for table in paper004.TABLES:
            cell = found[mechanism, table]
            gain = cell["paper"] / cell["optimum"]
            printed = paper004.PRINTED[mechanism].get(table)
            near.append(gain > 1 and (printed is None or gain > 0.66 * float(printed)))
            told.append(f"{table} {gain:.1f}" + (f" (printed {printed})" if printed else ""))
        pulled = [found[mechanism, t]["regularised"] for t in paper004.TABLES]
        own = [found[mechanism, t]["optimum"] for t in paper004.TABLES]
        also = ""
        if all(pulled):
            times = [b / a for a, b in zip(pulled, own, strict=True)]
            also = f"; the default fit errs {min(times):.2f} to {max(times):.2f} times less than the optimum"
        return DONE if all(near) else DIFFERS, f"gains {', '.join(told)}{also}"

    return judge


def epsilons(lines: Sequence[Line]) -> Judged:
    """Figure 2a: the gain grows with the noise."""
    found = paper004.figure2a_numbers(lines)
    low, high = float(found["optimum-01"]), float(found["optimum-10"])
    told = f"HDMM on Adult: {low:g} times at epsilon 0.1, {high:g} times at 10, where the paper has it behind"
    return DONE if low > high else DIFFERS, told


def scalability(lines: Sequence[Line]) -> Judged:
    """Figure 2b: full vectors end at ten attributes, the model does not."""
    found = {(x["method"], x["attributes"]): x for x in lines}
    reached = max(n for (method, n), x in found.items() if method == "engine" and "step_s" in x)
    vectors = max(
        n
        for (method, n), x in found.items()
        if method in ("multiplicative-weights", "lsmr") and "step_s" in x
    )
    seconds = found["engine", reached]["step_s"]
    told = (
        f"full vectors end at {vectors} attributes here; the engine takes {1000 * seconds:.0f} ms a step at "
    )
    told += f"{reached:,}"
    return DONE if reached == 1000 and vectors <= 10 else DIFFERS, told


def two_losses(lines: Sequence[Line]) -> Judged:
    """Figure 3: L2 errs less than L1 on the workload, and the error rises after a few hundred steps."""
    groups = by(newest(lines, "split", "arm", "steps", "seed"), "split", "arm")

    def end(arm: str, key: str) -> float:
        group = groups["equal", arm]
        last = max(x["steps"] for x in group)
        return statistics.median(x[key] for x in group if x["steps"] == last)

    least = statistics.median(
        min(x["error"] for x in one) for one in by(groups["equal", "l2"], "seed").values()
    )
    errors = [end(arm, "error") for arm in ("l2", "l1")]
    told = (
        f"workload error {errors[0]:.3f} by L2 and {errors[1]:.3f} by L1, {least:.3f} at best on the way; "
        "L1 loss "
        f"{end('l2', 'l1'):,.0f} and {end('l1', 'l1'):,.0f}. The default fit, which is pulled, ends at "
        f"{end('l2, regularised', 'error'):.3f}"
    )
    return DONE if errors[0] < errors[1] and least < errors[0] and end("l1", "l1") < end(
        "l2", "l1"
    ) else DIFFERS, told


HISTORY = ("paper000-kernel-pca", "paper000-max-entropy")
PCA = (
    *(f"paper000/kernel_pca.py run --count {n}" for n in (500, 1000, 2000, 5000)),
    "paper000/kernel_pca.py run --no-prior",
    "paper000/kernel_pca.py run --kind general",
    "paper000/kernel_pca.py run --kind general --no-prior",
    "paper000/kernel_pca.py draw",
)
ENTROPY = (
    *(f"paper000/max_entropy.py alpha --kind {kind}" for kind in ("ranges", "general")),
    "paper000/max_entropy.py draw",
)
ERRORS = ("bench/paper000/README.md", "errors")
INFERENCE, SESSIONS = ("paper003-inference",), ("paper003-sessions",)
MAE = ("paper001-mae",)


FIGURES = (
    Figure(
        "000",
        "Figures 2a, 2b",
        "Errors of improved past answers against alpha: least in the middle, less with a prior.",
        HISTORY,
        past_answers,
        (*PCA, *ENTROPY),
        ERRORS,
        "paper000-kernel-pca.png",
    ),
    Figure(
        "000",
        "Figures 2c, 2d",
        "New ranges answered from old ranges, or from general queries: a small alpha, and biased answers.",
        HISTORY,
        new_answers,
        (*PCA, *ENTROPY),
        ("bench/paper000/README.md", "entropy-alpha"),
        "paper000-max-entropy.png",
    ),
    Figure(
        "000",
        "Figure 3",
        "5-fold cross-validation estimates too large an error, but its least alpha is usually the best.",
        HISTORY,
        validation,
        (*PCA, *ENTROPY),
        ERRORS,
    ),
    Figure(
        "000",
        "Figure 4",
        "Errors against the number of queries; maximum entropy often errs less.",
        HISTORY,
        by_count,
        (*PCA, *(f"paper000/max_entropy.py alpha --queries {n} --alphas 3e-3" for n in (500, 1000, 2000))),
        ("bench/paper000/README.md", "entropy-fixed"),
    ),
    Figure(
        "000",
        "Figure 5",
        "Seconds: kernel PCA grows too fast for many queries, maximum entropy hardly grows.",
        HISTORY,
        seconds,
        (*PCA, "paper000/max_entropy.py queries"),
        ("bench/paper000/README.md", "costs"),
    ),
    Figure(
        "000",
        "Figures 6a, 6b",
        "Errors of pairs and triples of published rows: least by maximum entropy; randomised response fails.",
        ("paper000-publishing", "paper000-real-rows"),
        distributions,
        ("paper000/publishing.py", "paper000/real_rows.py"),
        ("bench/paper000/README.md", "publishing"),
        "paper000-publishing.png",
    ),
    Figure(
        "000",
        "Figure 7",
        "Errors of ranges of one to five dimensions: a remarkable advantage of maximum entropy.",
        ("paper000-publishing",),
        many_dimensions,
        ("paper000/publishing.py",),
        ("bench/paper000/README.md", "publishing"),
    ),
    Figure(
        "001",
        "Figure 2a",
        "Learners of ranges on the social network: regression errs least, all are stable from 400 on.",
        MAE,
        learners_of_ranges,
        ("paper001/mae.py learners",),
        ("bench/paper001/README.md", "learners"),
    ),
    Figure(
        "001",
        "Figure 2b",
        "Learners of similarities on Netflix: SVM errs least, regression most.",
        ("paper001-similarity",),
        learners_of_similarities,
        ("paper001/similarity.py",),
        ("bench/paper001/similarity.md", "learners"),
        needs=("ratings",),
    ),
    Figure(
        "001",
        "Figure 3",
        "Against the training set: the error falls, then noise makes it rise (NETTRACE least 20 at m = 88).",
        MAE,
        training_sizes,
        ("paper001/mae.py training",),
        ("bench/paper001/README.md", "training"),
        "paper001-mae-training.png",
    ),
    Figure(
        "001",
        "Figure 4",
        "Against the test set: MLDP is flat, Laplace grows linearly (62 for 100 queries, 276 for 500).",
        MAE,
        test_sizes,
        ("paper001/mae.py test",),
        ("bench/paper001/README.md", "tests"),
        "paper001-mae-test.png",
    ),
    Figure(
        "001",
        "Figure 5",
        "Against epsilon: MLDP errs least of all (NETTRACE at 1: MLDP 8.5, PMW 22, Laplace 32).",
        MAE,
        methods,
        ("paper001/mae.py epsilon",),
        ("bench/paper001/README.md", "epsilon"),
        "paper001-mae-epsilon.png",
    ),
    Figure(
        "002",
        "Figure 2",
        "Worst error by heterogeneity: level for randomised response; MWEM's grows and is larger.",
        ("paper002-mwem",),
        heterogeneity,
        ("paper002/mwem.py",),
        ("bench/paper002/README.md", "mwem"),
        "paper002-mwem.png",
        ("ratings",),
    ),
    Figure(
        "002",
        "Figure 3",
        "Worst error against the number of queries: level for randomised response, slowly growing for MWEM.",
        ("paper002-mwem",),
        query_sets,
        ("paper002/mwem.py",),
        ("bench/paper002/README.md", "mwem"),
        needs=("ratings",),
    ),
    Figure(
        "002",
        "Figure 4",
        "Squared error against rows: falls as one over them, below equation 20.",
        ("paper002-scaling",),
        rows,
        ("paper002/scaling.py --keep",),
        ("bench/paper002/README.md", "scaling"),
        "paper002-scaling.png",
        ("ratings",),
    ),
    Figure(
        "002",
        "Figure 5, Table I",
        "Half cuts of the Facebook graph: worst relative error 10.4 % at 577 vertices, 5.4 % at 4,039.",
        ("paper002-facebook",),
        cuts,
        ("paper002/facebook.py --keep",),
        ("bench/paper002/README.md", "facebook"),
        "paper002-facebook.png",
    ),
    Figure(
        "003",
        "Section 5.2",
        "The worked example: estimate, interval, probability, system cost.",
        ("paper003-example",),
        example,
        ("paper003/worked_example.py --keep",),
        needs=(),
    ),
    Figure(
        "003",
        "Figure 5",
        "Seconds of the linear estimate: slowly growing with answers, fast with cells.",
        INFERENCE,
        blue,
        ("paper003/inference.py", "paper003/inference_plots.py"),
        ("bench/paper003/README.md", "blue"),
        "paper003-inference.png",
        (),
    ),
    Figure(
        "003",
        "Figure 6",
        "Seconds of an answer's distribution: Monte Carlo grows with answers, the calculation with cells.",
        INFERENCE,
        distribution_sizes,
        ("paper003/inference.py",),
        ("bench/paper003/README.md", "size"),
        needs=(),
    ),
    Figure(
        "003",
        "Figure 7",
        "The calculation against beta: slower, with an error that stays below gamma.",
        INFERENCE,
        betas,
        ("paper003/inference.py",),
        ("bench/paper003/README.md", "beta"),
        needs=(),
    ),
    Figure(
        "003",
        "Figure 8",
        "Monte Carlo against its draws: slower, with an error that falls, below Corollary 4.1.",
        INFERENCE,
        draws,
        ("paper003/inference.py",),
        ("bench/paper003/README.md", "error"),
        needs=(),
    ),
    Figure(
        "003",
        "coverage",
        "Not in the paper: whether intervals hold the truth as often as they say.",
        INFERENCE,
        coverage,
        ("paper003/inference.py",),
        ("bench/paper003/README.md", "coverage"),
        needs=(),
    ),
    Figure(
        "003",
        "simultaneous intervals",
        "Not in the paper: whether intervals of several answers hold all at once.",
        INFERENCE,
        joint,
        ("paper003/inference.py",),
        ("bench/paper003/README.md", "joint"),
        needs=(),
    ),
    Figure(
        "003",
        "Figure 9",
        "Sessions without a cap: a fraction of the cost, smaller error, reliable intervals.",
        SESSIONS,
        sessions("unbounded"),
        ("paper003/sessions.py", "paper003/sessions.py --plot"),
        ("bench/paper003/README.md", "sessions"),
        "paper003-sessions.png",
    ),
    Figure(
        "003",
        "Figure 10",
        "Sessions under a cap of 1: many more queries are answered.",
        SESSIONS,
        sessions("bounded"),
        ("paper003/sessions.py",),
        ("bench/paper003/README.md", "sessions"),
    ),
    *(
        Figure(
            "004",
            f"Figure 1{letter}",
            f"{paper004.NAMES[mechanism]} with and without the graphical model on four tables at epsilon 1.",
            ("paper004-figure1",),
            gains(mechanism),
            ("paper004/figure1.py", "paper004/figure1.py --plot"),
            ("bench/paper004/README.md", "figure-1"),
            "paper004-figure1.png" if letter == "a" else "",
        )
        for letter, mechanism in zip("abcd", ("privbayes", "dual-query", "mwem", "hdmm"), strict=True)
    ),
    Figure(
        "004",
        "Figure 2a",
        "HDMM on Adult by epsilon: the model gains most at small epsilon; at 10 least squares is ahead.",
        ("paper004-figure2a",),
        epsilons,
        ("paper004/figure2a.py --trials 3",),
        ("bench/paper004/README.md", "figure-2a"),
        "paper004-figure2a.png",
    ),
    Figure(
        "004",
        "Figure 2b",
        "Seconds an iteration by attributes: full vectors end at 10, the model reaches 1,000.",
        ("paper004-scalability",),
        scalability,
        ("paper004/scalability.py",),
        ("bench/paper004/README.md", "figure-2b"),
        "paper004-scalability.png",
        needs=("mbi",),
    ),
    Figure(
        "004",
        "Figure 3",
        "L1 and L2 along the steps: L2 errs less on the workload, and more again after some 200 steps.",
        ("paper004-figure3",),
        two_losses,
        ("paper004/figure3.py",),
        ("bench/paper004/README.md", "figure-3"),
        "paper004-figure3.png",
    ),
)


def judged(figure: Figure) -> Judged:
    """Return the verdict on a figure and what it rests on, from the lines that are kept."""
    kept = [harness.read(harness.RESULTS / f"{name}.jsonl") for name in figure.results]
    try:
        return figure.judge(*kept)
    except (LookupError, ValueError):  # a run that was not made, or not to its end
        return NOT, "there are no lines, or not all"


def verdicts() -> str:
    """A row for each figure: what it shows, the verdict, and what that rests on."""
    rows = [[each.paper, each.name, each.says, *judged(each)] for each in FIGURES]
    return markdown(["paper", "what", "the paper", "verdict", "ours"], rows)
