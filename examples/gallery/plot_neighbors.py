"""
Neighbors against low rank
==========================

Some choices follow a taste that many share: low rank. Others go from item
to item: who has the first part of a series takes the second. A model with
both parts need not be told which it will be.
"""

# %%
# Three models
# ------------
# With ``reg_low_rank=1`` no common taste is left, and with ``neighbors=0``
# there is nothing else.

import numpy as np

import csrr

models = {
    "both": csrr.CSRR(),
    "low rank alone": csrr.CSRR(neighbors=0),
    "neighbors alone": csrr.CSRR(reg_low_rank=1.0),
}


def compare_on(log):
    """Return how well each model ranks held-out choices of a log."""
    train, test = csrr.split(log, ratio=0.8, seed=0)
    found = {
        name: csrr.evaluate(model.fit(train), train, test, at=10)
        for name, model in models.items()
    }
    return csrr.tabulate(found, ["ndcg@10"])


# %%
# Few choices, shared tastes
# --------------------------
# Four genres, 800 items, ten choices a person: two items of one genre have
# hardly a person in common, so that neighbors have little to go by. A
# common taste pools what all of a genre's items say.

tastes = csrr.synthetic(
    600, 800, rank=4, events_per_user=10, specific=0, noise=0, seed=0
).log
csrr.plot(compare_on(tastes))

# %%
# Series
# ------
# Now two fifths of the choices are parts of series: a hundred groups of
# four items that go together. Each has too few followers to be a common
# taste, and neighbors see it at once.

N_USERS, N_SERIES = 600, 100
rng = np.random.default_rng(0)
tastes = csrr.synthetic(
    N_USERS, 4 * N_SERIES, events_per_user=30, specific=0, noise=0, seed=0
).log
tastes = tastes.select(rng.random(len(tastes)) < 0.6)
follows = rng.integers(0, N_SERIES, (N_USERS, 4))
user, place, part = np.nonzero(rng.random((N_USERS, 4, 4)) < 0.75)
users = np.concatenate([tastes.user_rows, user])
items = np.concatenate(
    [tastes.item_rows, follows[user, place] + N_SERIES * part]
)
titles = [
    f"series {item % N_SERIES}, part {item // N_SERIES + 1}"
    for item in items
]
log = csrr.read({"user": users, "item": items, "title": titles})
csrr.plot(compare_on(log))

# %%
# Which of a person's choices speak for an item, and through which part, is
# in its explanation.

train, _ = csrr.split(log, ratio=0.8, seed=0)
model = csrr.CSRR().fit(train)
csrr.plot(model.explain(0, model.recommend(0, k=1).items[0, 0]))
