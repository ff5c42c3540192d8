"""What a release answers to its evaluator: 22 rows, true of the release, each held by a test that is there.

`python tests/release/test_assurance.py` writes the table of docs/privacy-officer.md anew.
"""

import ast
import html
import itertools
import json
import pathlib
import re

import numpy as np
import pandas as pd
import pytest

import pgmjax as pj
from pgmjax.cli import main
from pgmjax.release import assurance, statement
from pgmjax.release import folder as release_folder

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "privacy-officer.md"
TABLE = re.compile(r"(?<=<!-- hazards -->\n\n).*?(?=\n\n<!-- /hazards -->)", re.DOTALL)
NOTE = "patients a ward, yearbook, page 12"
WORDS = {"sex": ["f", "m"], "age": [20, 30, 40, 50], "visits": [0, 1, 2]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table of 600 records of 200 people, and the domain of its columns."""
    folder = tmp_path_factory.mktemp("assurance")
    rng = np.random.default_rng(11)
    frame = pd.DataFrame({name: rng.choice(values, 600) for name, values in WORDS.items()})
    frame["who"] = [f"p{number}" for number in rng.integers(0, 200, 600)]
    frame.to_csv(folder / "t.csv", index=False)
    pj.Domain({name: {"labels": values} for name, values in WORDS.items()}).write(folder / "d.json")
    return folder


def command(place, out, *more):
    words = ["release", "t.csv", "--mechanism", "marginals", "--out", out, "--quiet", "--steps", "200", *more]
    assert main([str(place / word) if word in ("t.csv", "d.json", "l", out) else word for word in words]) == 0
    return pj.load(place / out)


def plain(place):
    """A pure release of pairs, charged to a ledger that has a note of an exact figure."""
    account = ["--name", "people", "--epsilon", "3", "--relation", "add-remove", "--domain"]
    assert (
        main(["ledger", "init", str(place / "l"), str(place / "t.csv"), *account, str(place / "d.json")]) == 0
    )
    assert main(["ledger", "note-exact", str(place / "l"), "people", NOTE]) == 0
    asked = ["--all-kway", "2", "--epsilon", "1", "--relation", "add-remove", "--domain", "d.json"]
    return command(place, "plain", *asked, "--ledger", "l")


def after_another(place):
    """A release with a delta whose model follows that of an earlier one; the number of records is public."""
    words = ["--epsilon", "1", "--delta", "1e-6", "--relation", "replace-one", "--domain", "d.json"]
    command(place, "earlier", *words, "--all-kway", "1")
    (place / "w.json").write_text('[["sex", "age"]]')
    return command(
        place, "later", *words, "--workload", str(place / "w.json"), "--from", str(place / "earlier")
    )


def discovered(place):
    """A release of a domain that was found, under a unit of at most 2 records."""
    unit = ["--unit", "who", "--max-records", "2", "--discover", "0.3"]
    asked = ["--all-kway", "1", "--epsilon", "20", "--delta", "1e-6", "--relation", "add-remove"]
    return command(place, "found", *unit, *asked)


@pytest.fixture(scope="module")
def rows(place):
    """Of each kind of release the saved one, its claim, and its rows by number."""
    found = {}

    def of(make):
        if make not in found:
            saved = make(place)
            told = saved.assurance()
            found[make] = saved, told, {row["number"]: row for row in told["hazards"]}
        return found[make]

    return of


@pytest.mark.parametrize("make", [plain, after_another, discovered])
def test_the_evidence_is_true_of_the_release(make, rows, place):
    saved, told, row = rows(make)
    assert [*row] == list(range(1, 23))
    assert [one["title"] for one in row.values()] == [each.title for each in assurance.HAZARDS]
    assert all(one["status"] in assurance.STATUSES and len(one["evidence"]) > 20 for one in row.values())
    assert {name: told[name] for name in saved.record["spent"]} == saved.record["spent"]
    assert told["secure"] is True and told["relation"] == saved.record["relation"]
    domain, noisy = saved.model.domain, saved.measurements()
    names = list(domain.attributes)
    assert row[16]["facts"]["values"] == {name: domain[name] for name in names}
    assert f"{len(noisy):,} noisy values" in row[15]["evidence"]
    assert row[15]["facts"]["noisy_values"] == len(noisy)
    assert str(noisy.schema.field("value").type) == "int64" and row[19]["facts"]["integers"]
    assert f"opendp {saved.record['versions']['opendp']}" in row[8]["evidence"]
    files = {each["name"] for each in row[21]["facts"]["files"]}
    assert files == {path.name for path in saved.folder.iterdir()} == set(saved.record["files"])
    paid = {each["name"] for each in row[21]["facts"]["files"] if not each["made_again"]}
    assert paid <= {"release.json", "measurements.parquet", "domain.json"} and "measurements.parquet" in paid
    assert sum(map(len, row[9]["facts"]["columns"].values())) == len(names)
    assert row[22]["facts"]["read"][: len(names)] == names
    page = html.unescape((saved.folder / "report.html").read_text())
    assert "Answers to an evaluator" in page and all(one["title"] in page for one in row.values())


def test_a_plain_release_with_a_ledger(rows):
    saved, told, row = rows(plain)
    assert told["accounting"] == "pure" and {each["epsilon"] for each in told["curve"]} == {"1"}
    assert row[2]["status"] == "shown" and row[5]["status"] == "your decision" and told["unit"] is None
    assert row[7]["facts"]["exact"] == saved.record["ledger"]["exact"] and NOTE in row[7]["evidence"]
    assert "charge 1" in row[7]["evidence"].lower() and row[17]["facts"]["charge"] == 1
    assert row[13]["facts"] == {"max_records": 1, "max_weight": 1, "factor": 1}
    assert row[14]["status"] == "your decision" and row[14]["facts"] == {"found": [], "given": [*WORDS]}
    assert row[20]["status"] == "shown" and row[22]["facts"]["not_needed"] == []
    assert "is protected" in row[4]["evidence"] and "but for" not in row[21]["evidence"]


def test_a_release_after_another(rows):
    _, told, row = rows(after_another)
    assert told["accounting"] == "zcdp" and told["epsilon"] == "2" and told["delta"] == "0.000002"
    assert "epsilon 2 at delta 0.000002, is more than rho gives there, as it adds up" in row[3]["evidence"]
    assert "earlier release, whose cost is counted: a release by 'marginals'" in row[7]["evidence"]
    assert row[7]["status"] == "your decision" and row[17]["status"] == "not provided"
    assert "number of records is not protected" in row[4]["evidence"]
    assert "but for what is public: the number of records." in row[21]["evidence"]
    assert row[22]["status"] == "partly" and row[22]["facts"]["not_needed"] == ["visits"]
    assert row[22]["facts"]["measured"] == ["sex", "age"]


def test_a_discovered_domain_under_a_unit(rows):
    saved, told, row = rows(discovered)
    risk = saved.record["inputs"][0]["label_delta"]
    assert told["label_delta"] == risk != "0" and row[2]["status"] == "partly" and risk in row[2]["evidence"]
    assert told["unit"] == row[5]["facts"] == {"column": "who", "max_records": 2}
    assert row[13]["facts"] == {"max_records": 2, "max_weight": 1, "factor": 2}
    assert row[14]["status"] == "shown" and row[14]["facts"]["given"] == []
    assert set(row[14]["facts"]["found"]) == {*saved.record["discovery"]["domain"]}
    assert saved.record["discovery"]["cost"]["rho"] in row[14]["evidence"]
    assert row[1]["status"] == "your decision" and "WARNING" in row[1]["evidence"]
    assert row[22]["facts"]["read"][-1] == "who"


def test_the_curve_is_what_opendp_says_of_rho(rows):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    for make in (after_another, discovered):
        _, told, _ = rows(make)
        scale = (2 * float(pj.privacy.exact.exact("rho", told["rho"]))) ** -0.5
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
        profile = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1.0)
        assert len(told["curve"]) >= 3
        for point in told["curve"]:
            delta = float(point["delta"]) - float(told["label_delta"])
            assert float(point["epsilon"]) == pytest.approx(profile.epsilon(delta), rel=2e-4)
        asked = [float(each["epsilon"]) for each in told["curve"] if each["delta"] == told["delta"]]
        assert asked and asked[0] <= float(told["epsilon"])


def test_groups_by_size_against_every_cell(small_release):
    found = {each["least"]: each for each in small_release.count_accuracy.by_size()}
    cells = []
    asked = {(name,) for name in small_release.domain}
    asked |= {clique for clique in small_release.workload.cliques if len(clique) > 1}
    for clique in asked:
        known = small_release.estimates.unbiased(pj.queries.marginal(clique))
        if known is None or not known.determined.all():
            continue
        fitted = np.ravel(small_release.model.marginal(clique))
        low, high = known.values - known.width * known.stddevs, known.values + known.width * known.stddevs
        cells += zip(fitted, (high - low) / 2, known.values, strict=True)
    edges = [0, 1, 10, 100, 1000, 10000, np.inf]
    for least, end in itertools.pairwise(edges):
        inside = [one for one in cells if least <= one[0] < end]
        assert (least in found) == bool(inside)
        if inside:
            fitted, half, noisy = map(np.array, zip(*inside, strict=True))
            assert found[least]["cells"] == len(inside)
            assert found[least]["relative"] == pytest.approx(half.sum() / fitted.sum(), abs=1e-4)
            assert found[least]["excess"] == pytest.approx((fitted - noisy).mean(), abs=1e-4)
    assert len(found) > 1


def test_columns_that_nobody_needed_are_named(small_release):
    told = assurance.of(release_folder.describe(small_release), small_release.estimates)
    asked = {name for each in small_release.workload.entries for name in each.clique}
    facts = told["hazards"][-1]["facts"]
    assert set(facts["not_needed"]) == set(small_release.domain.attributes) - asked
    for number in (1, 2, 3, 4, 5, 8, 15):  # a seed
        assert told["hazards"][number - 1]["status"] == "not provided"
    assert told["hazards"][0]["evidence"].startswith("The noise of this release protects nobody.")


@pytest.mark.parametrize("name", ["dual-query", "mldp", "hdmm", "randomized-response", "privbayes"])
def test_every_kind_of_answer_has_its_rows(name):
    from tests import stored

    release = stored.release(name)
    told = assurance.of(release_folder.describe(release), release.estimates)
    assert len(told["hazards"]) == 22 and json.loads(json.dumps(told, allow_nan=False)) == told
    number = sum(m.values.size for m in release.measurements)
    assert told["hazards"][14]["facts"]["noisy_values"] == number
    said = {row["number"]: row["evidence"] for row in told["hazards"]}
    assert ("No noise was added" in said[19]) is (number == 0)
    assert ("has a 95 % interval" in said[9]) is (number > 0)
    assert ("trained model" in said[12]) is (name == "mldp")


def test_a_delta_that_no_rho_explains_is_said_to_be_part_of_the_sum(small_release):
    record = release_folder.describe(small_release)
    record |= {"spent": {"epsilon": "1", "delta": "0.000001"}, "secure": True}
    told = assurance.of(record, small_release.estimates)
    assert told["accounting"] == "approximate" and told["curve"] == [{"delta": "0.000001", "epsilon": "1"}]
    assert told["hazards"][1]["status"] == told["hazards"][2]["status"] == "partly"
    record["spent"]["rho"] = "1"  # which costs more than epsilon 1 at this delta
    assert assurance.of(record, small_release.estimates)["accounting"] == "approximate"


def test_a_delta_near_one_over_the_records_is_nobodys_strong_guarantee(small_release):
    record = release_folder.describe(small_release)
    for records, warns in ((99.0, False), (101.0, True)):
        record |= {"spent": {"epsilon": "1", "delta": "0.001"}, "total": records, "secure": True}
        told = assurance.of(record, small_release.estimates)
        assert (told["hazards"][1]["status"] == "your decision") is warns
        assert ("strong" in told["hazards"][0]["evidence"]) is not warns
        assert ("1 / (number of records)" in statement.cost(record)) is warns


def test_a_release_of_before_has_none_and_loads(small_release, tmp_path):
    folder = release_folder.write(small_release, tmp_path / "r", show_progress=False)
    (folder / "assurance.json").unlink()
    saved = pj.load(folder)
    assert saved.assurance() is None and saved.model.total == small_release.model.total


def test_every_row_names_a_test_that_is_there():
    assert [each.number for each in assurance.HAZARDS] == list(range(1, 23))
    for each in assurance.HAZARDS:
        path, name = each.test.split("::")
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, each.test


def listed():
    """Return the table of docs/privacy-officer.md, in Markdown."""
    lines = ["| | section | hazard | what the release says of it | where |", "|---|---|---|---|---|"]
    for each in assurance.HAZARDS:
        where = f"[page]({each.page})" if each.page else f"`{assurance.NAME}`"
        lines.append(f"| {each.number} | {each.section} | {each.title} | {each.tells} | {where} |")
    return "\n".join(lines)


def test_the_page_has_the_table_of_the_code():
    assert TABLE.search(PAGE.read_text())[0] == listed()


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda found: listed(), PAGE.read_text()))
