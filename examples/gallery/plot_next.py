"""
What comes next
===============

Somebody who bought a tent looks for a stove; somebody who bought it last
year does not. A model that knows what came last predicts what comes next.
"""

# %%
# A log in order
# --------------
# Sixty items lie on a circle. Seven times in ten a user goes on to the next
# item or the one after it, else anywhere.

import numpy as np

import csrr

rng = np.random.default_rng(1)
rows = []
for user in range(500):
    item = int(rng.integers(60))
    for _ in range(rng.integers(5, 12)):
        rows.append((user, item))
        step = int(rng.integers(1, 3))
        goes_on = rng.random() < 0.7
        item = (item + step) % 60 if goes_on else int(rng.integers(60))
users, items = zip(*rows, strict=True)
log = csrr.read({"user": users, "item": items}, ordered=True)
log

# %%
# The last event of each user
# ---------------------------
# It is held out; every model ranks all items that the user did not have.

train, test = csrr.split(log, by="last")
models = {
    "CSRR": csrr.CSRR(),
    "CSRR, order": csrr.CSRR(order="next"),
    "MarkovChain": csrr.MarkovChain(),
    "VSKNN": csrr.VSKNN(),
}
lengths = (1, 2, 5, 10, 20)
found = {
    name: csrr.evaluate(
        model.fit(train), train, test, at=lengths, metrics=["hit_rate"]
    )
    for name, model in models.items()
}
csrr.plot_lines(
    {
        name: (lengths, [each[f"hit_rate@{k}"] for k in lengths])
        for name, each in found.items()
    },
    title="Next items in the list",
    x="length of the list",
    y="share of users whose next item is in it",
    caption="The first does not know what came last.",
)

# %%
# The same items in another order
# -------------------------------
# The newest item is the last of the list.

model = models["CSRR, order"]
for history in ([10, 30], [30, 10]):
    print(history, model.recommend_for(history, k=3).items[0].tolist())
