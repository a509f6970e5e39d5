"""Small data that every model test can fit in a moment."""

import numpy as np
import pytest

from csrr.data.log import Log
from csrr.data.synthetic import synthetic


@pytest.fixture(scope="session")
def log():
    """80 users x 60 items with titles; ids are row numbers."""
    return synthetic(80, 60, rank=4, events_per_user=10).log


@pytest.fixture(scope="session")
def clicks(log):
    """The log as a dense 0/1 matrix, (80, 60)."""
    return log.to_csr().toarray()


@pytest.fixture(scope="session")
def named(clicks):
    """The same events with ids of the caller's own: strings for users, far-off integers for items."""
    return Log.from_matrix(
        clicks, user_ids=[f"Zoë {i:03d}" for i in range(80)], item_ids=(np.arange(60) * 7 - 100).tolist()
    )
