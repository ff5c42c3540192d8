import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import FunctionalDependency

DOMAIN = Domain({"zip": 4, "street": 2, "state": {"labels": ["MA", "NY", "CT"]}})


def test_a_mapping_and_an_array_are_one_mask():
    by_label = FunctionalDependency(("zip",), "state", {0: "NY", 3: "MA", 1: "NY", 2: "CT"})
    by_code = FunctionalDependency(("zip",), "state", [1, 1, 2, 0])
    expected = np.zeros((4, 3), bool)
    expected[range(4), [1, 1, 2, 0]] = True
    for one in (by_label, by_code):
        mask = one.zeros(DOMAIN)
        assert mask.clique == one.clique == ("zip", "state")
        np.testing.assert_array_equal(mask.allowed, expected)


def test_two_attributes_may_determine_together():
    codes = np.arange(8).reshape(4, 2) % 3
    mapping = {(z, s): int(codes[z, s]) for z in range(4) for s in range(2)}
    for given in (codes, mapping):
        mask = FunctionalDependency(("zip", "street"), "state", given).zeros(DOMAIN)
        np.testing.assert_array_equal(mask.allowed.argmax(axis=-1), codes)
        assert (mask.allowed.sum(axis=-1) == 1).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((("zip",), ("state",), [0] * 4), TypeError, "determined must be one attribute's name"),
        ((("zip",), "zip", [0] * 4), ValueError, "cannot be among the attributes that determine it"),
        ((("zip",), "state", {}), ValueError, "empty mapping"),
        ((("zip",), "state", [0.5] * 4), TypeError, "array of integer codes"),
        ((("zip",), "state", [[0] * 4]), ValueError, r"'state'.*\('zip',\).*1"),
        ((("zip",), "state", [0, 1]), ValueError, r"shape \(4,\), got \(2,\)"),
        ((("zip",), "state", [0, 1, 2, 3]), ValueError, r"codes in 0\.\.2"),
        ((("zip",), "state", {0: "MA"}), ValueError, "leaves out 3 of 4 combinations"),
        ((("zip",), "state", {9: "MA"}), ValueError, r"9.*'zip'"),
        ((("zip", "street"), "state", {0: "MA"}), ValueError, r"'state'.*\('zip', 'street'\).*2"),
        ((("zip",), "country", [0] * 4), ValueError, "country"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        FunctionalDependency(*arguments).zeros(DOMAIN)


def test_a_combination_by_label_and_by_code_is_one_too_many():
    domain = Domain({"zip": {"labels": ["x", "y"]}, "state": 2})
    with pytest.raises(ValueError, match="names a combination twice"):
        FunctionalDependency(("zip",), "state", {"x": 0, 0: 1, "y": 1}).zeros(domain)
