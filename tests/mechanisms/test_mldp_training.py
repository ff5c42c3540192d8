"""What a run of MLDP measures, by the name that a ledger keeps it under."""

import numpy as np

from pgmjax import Dataset, Domain, Estimator, Relation, Workload
from pgmjax.mechanisms import MLDP
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries import Product, range

ADD = Relation.ADD_REMOVE
TABLE = Dataset.from_columns(Domain({"grade": 4}), {"grade": np.repeat(np.arange(4), [12, 24, 6, 7])})
ALL = Workload([{"clique": ["grade"], "queries": {"grade": "all_ranges"}}])
FAST = Estimator(max_steps=20, progress=False)


def test_runs_that_measure_something_else_have_another_name_in_a_ledger(tmp_path):
    """Without a key none runs into the answers of another one."""
    random = {"training": "random"}
    runs = [
        {},
        {"learner": ["linear", "ridge"]},
        {"learner": ["linear", "ridge"], "validation_share": "1/3"},
        {**random, "training_count": 4},
        {**random, "training_count": 5},
        {**random, "expected_records": 50},
        {"training": Product({"grade": range(0, 1)})},
        {"training": Product({"grade": range(1, 2)})},
    ]
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "grades", epsilon=20, relation="add-remove", digest=ledger.digest_of(TABLE), domain=TABLE.domain
        )
        for options in runs * 2:
            MLDP(epsilon=1, relation=ADD, estimator=FAST, **options).run(TABLE, ALL, ledger=ledger)
        assert ledger.account("grades").charges == len(runs)
