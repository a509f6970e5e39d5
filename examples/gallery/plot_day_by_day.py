"""
Day by day
==========

New people come, new items come, and taste moves on. A model that takes in
every day's events keeps up; one that was fitted once falls behind.
"""

# %%
# Three weeks
# -----------
# Every event has a day. Items appear one after the other, and are mostly
# chosen in the days after.

import numpy as np

import csrr

DAY = 86_400
made = csrr.synthetic(600, 300, events_per_user=40, seed=6).log
rng = np.random.default_rng(6)
appears = rng.integers(0, 18, made.n_items) * (
    rng.random(made.n_items) < 0.6
)  # four in ten are there from the start
days = np.minimum(
    appears[made.item_rows] + rng.exponential(4, len(made)).astype(int), 20
)
log = csrr.read(
    {
        "user": made.user_rows,
        "item": made.item_rows,
        "time": days * DAY,
        "title": made.titles[made.item_rows],
    }
)
log

# %%
# Each night
# ----------
# ``update`` keeps the settings that were chosen, and begins where the last
# fit ended. At the end of each day we count how many of the next day's
# choices were in the lists of ten.


def select_days(first, last):
    """Return the events of some days."""
    return log.select(
        (log.times >= first * DAY) & (log.times <= last * DAY)
    )


def count_hits(model, day):
    """Return the share of a day's choices that is in the lists."""
    events = select_days(day, day).to_arrow().to_pydict()
    known = [
        (user, item)
        for user, item in zip(events["user"], events["item"], strict=True)
        if user in model.users_
    ]
    users = sorted({user for user, _ in known})
    lists = dict(
        zip(users, model.recommend(users, k=10).items.tolist(), strict=True)
    )
    return sum(item in lists[user] for user, item in known) / len(known)


week = select_days(0, 6)
once, nightly = csrr.CSRR().fit(week), csrr.CSRR().fit(week)
hits = {"fitted once": [], "updated every night": []}
for day in range(7, 20):
    hits["fitted once"].append(count_hits(once, day))
    hits["updated every night"].append(count_hits(nightly, day))
    nightly.update(select_days(day, day))

csrr.plot_lines(
    {name: (range(7, 20), line) for name, line in hits.items()},
    title="A model that keeps up",
    x="day",
    y="share of the day's choices in lists of ten",
    caption="The first week is the training data of both.",
)

# %%
# The model says how old its choice of settings is.

nightly.chosen_.growth_note
