import pytest

import csrr


@pytest.fixture(scope="session")
def parts():
    """A train and a test log whose ids are no row numbers: strings for users, far-off integers for items."""
    log = csrr.synthetic(60, 40, rank=3, events_per_user=12).log
    named = csrr.Log.from_matrix(
        log.to_csr(), user_ids=[f"u{row:02d}" for row in range(60)], item_ids=[7 * row + 100 for row in range(40)]
    )
    return csrr.split(named)
