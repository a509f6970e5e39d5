"""
A first model
=============

From a log of clicks to lists, and to how good they are beside simpler
models.
"""

# %%
# Clicks
# ------
# Synthetic data: 600 people, 400 pieces of music, some 30 choices each.
# Your own: ``csrr.read("clicks.csv")``, a DataFrame, a query or a sparse
# matrix. A fifth of everybody's choices is kept back for the test.

import csrr

log = csrr.synthetic(seed=0).log
train, test = csrr.split(log, ratio=0.8, seed=0)
log

# %%
# Fit
# ---
# Without arguments the model chooses its settings on choices that it holds
# out of the training data. The certificate says how far from the best
# possible fit it can be at most.

model = csrr.CSRR().fit(train)
model

# %%
model.certificate_

# %%
# Recommend
# ---------
# What people have already is left out.

model.recommend([1, 2], k=5)

# %%
# Is it any good?
# ---------------
# Popularity is the baseline. The intervals are over users; ``csrr.compare``
# tests the differences user by user, which is sharper.

rivals = {
    "PopRank": csrr.PopRank(),
    "ItemKNN": csrr.ItemKNN(),
    "EASE": csrr.EASE(),
    "WRMF": csrr.WRMF(),
}
models = {"CSRR": model} | {
    name: rival.fit(train) for name, rival in rivals.items()
}
found = {
    name: csrr.evaluate(each, train, test, at=10)
    for name, each in models.items()
}
csrr.plot(csrr.tabulate(found, ["ndcg@10"]))

# %%
csrr.compare(found, "ndcg@10", baseline="CSRR")
