"""A log with one account that looks like a bot."""

import numpy as np
import pytest

import csrr


def make_log(rows, **more):
    users, items, *rest = zip(*rows, strict=True)
    columns = {"user": users, "item": items, **({"time": rest[0]} if rest else {})}
    return csrr.Log.from_table(columns, **more)


@pytest.fixture(scope="module")
def planted():
    """A log of 200 users of 6 events each, and one account that has every one of 150 items."""
    rng = np.random.default_rng(0)
    rows = [(user, item) for user in range(200) for item in rng.choice(150, 6, replace=False).tolist()]
    return make_log(rows + [(999, item) for item in range(150)])
