"""Fits have the same bits whatever the number of threads, on data so large that the work is handed out in ranges."""

import numpy as np
import pytest

from csrr import CSRR, WRMF, CSRRe, MCShift
from csrr.data.synthetic import synthetic
from csrr.numerics.thread_engine import cut_rows

KINDS = {
    "CSRR": (CSRR, {"max_rank": 8, "max_iter": 4}),
    "CSRRe": (CSRRe, {"rank": 8, "max_iter": 4}),
    "CSRRe, non-negative": (CSRRe, {"rank": 8, "max_iter": 15, "factors": "nonnegative"}),
    "WRMF": (WRMF, {"rank": 8, "max_iter": 4}),
    "MCShift": (MCShift, {"max_rank": 8, "max_iter": 4}),
}


@pytest.fixture(scope="module")
def large():
    """4200 users x 2100 items; several ranges of rows on either side."""
    log = synthetic(4200, 2100, rank=4, events_per_user=8).log
    assert min(len(cut_rows(n)) for n in (log.n_users, log.n_items)) > 2
    return log


@pytest.mark.parametrize("name", KINDS)
def test_the_number_of_threads_changes_no_bit(name, large, monkeypatch):
    # Two threads even where there is one core.
    monkeypatch.setattr("csrr._base.threads.available_cores", lambda: 2)
    kind, params = KINDS[name]
    one, two = (kind(threads=threads, **params).fit(large) for threads in (1, 2))
    assert one.user_factors_.any()
    np.testing.assert_array_equal(one.user_factors_, two.user_factors_)
    np.testing.assert_array_equal(one.item_factors_, two.item_factors_)
    histories = [large.history(user).tolist() for user in large.users.ids[:40]]
    np.testing.assert_array_equal(one.fold_in(histories).score(), two.fold_in(histories).score())
    if hasattr(one, "specific_"):
        np.testing.assert_array_equal(one.specific_.data, two.specific_.data)
