"""The checks of records' responses pass with either backend, and see what is wrong."""

import pytest

from pgmjax.audit import mutations_response, responses
from pgmjax.audit.primitives import AuditFailure
from pgmjax.privacy.seeded import SeededBackend

FALSE_ALARMS = 0.0  # everything here is seeded


def test_seeded_responses_pass():
    responses.responses_keep_their_epsilon(SeededBackend(1, insecure=True))
    responses.records_answer_once()


@pytest.mark.parametrize("change", ["whole_epsilon_a_bit", "shared_coin", "honest_records"])
def test_a_wrong_response_is_seen(change):
    source = SeededBackend(1, insecure=True)
    with getattr(mutations_response, change)(), pytest.raises(AuditFailure, match=r"^Responses of encoding"):
        responses.responses_keep_their_epsilon(source)
