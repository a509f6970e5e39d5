"""
Items that are new
==================

Nobody has chosen a new item, but it has tags. How well is it known by
these, beside an item with events?
"""

# %%
# Songs with tags
# ---------------
# Everybody likes a few styles. Each song has a style, and tags that go
# with it, more or less.

import numpy as np

import csrr

rng = np.random.default_rng(3)
n_people, n_songs, n_styles = 900, 300, 15
styles = rng.integers(n_styles, size=n_songs)
tags = {
    song: [
        f"tag {(3 * styles[song] + rng.integers(4)) % 45}" for _ in range(3)
    ]
    for song in range(n_songs)
}
people, songs = [], []
for person in range(n_people):
    likes = np.isin(styles, rng.choice(n_styles, 3, replace=False))
    chance = np.where(likes, 1.0, 0.05)
    chosen = rng.choice(n_songs, 15, replace=False, p=chance / chance.sum())
    people += [person] * len(chosen)
    songs += chosen.tolist()
log = csrr.read({"user": people, "item": songs})

# %%
# A fifth of the songs is hidden
# ------------------------------
# They are taken out of the data with all their events, and the model
# knows them by their tags alone.

train, test = csrr.split(log, cold_items=0.2, seed=0)
hidden = test.items.ids[test.item_counts() > 0]
told = csrr.CSRR().fit(train, items=tags)
print(told.features_)

# %%
# What tags are worth
# -------------------
# Lists of the hidden songs alone: by tags, by a model that has seen a part
# of their events, and by no knowledge at all.

rest, asked = csrr.split(test, ratio=0.5, seed=0)
pairs = [(each.user_rows, each.item_rows) for each in (train, rest)]
users, items = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
both = csrr.read(
    {"user": log.users.ids[users], "item": log.items.ids[items]}
)
seen = csrr.CSRR().fit(both)
lengths = (1, 2, 5, 10, 20)


def measure_recall(model, known):
    """Return the recall of lists of hidden songs."""
    found = csrr.evaluate(
        model,
        known,
        asked,
        at=lengths,
        metrics=["recall"],
        candidates=hidden,
    )
    return [found[f"recall@{k}"] for k in lengths]


csrr.plot_lines(
    {
        "half of their events": (lengths, measure_recall(seen, both)),
        "tags alone": (lengths, measure_recall(told, train)),
        "chance": (lengths, [k / len(hidden) for k in lengths]),
    },
    title="New songs by their tags",
    x="length of the list",
    y="recall",
    caption=f"{len(hidden)} hidden songs, ranked among themselves.",
)

# %%
# One more, this morning
# ----------------------

told.add_items({1000: tags[int(hidden[0])]})
print(told.explain(0, 1000))
