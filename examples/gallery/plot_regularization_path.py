"""
The regularization path
=======================

One number decides how much common taste there is in a model: the strength
of the penalty on its rank. Here is the whole path, from nothing to too
much.
"""

# %%
# From rank 0 on
# --------------
# ``reg_low_rank`` is a fraction of the strength at which nothing is left.
# Each fit begins where the one before ended.

import csrr

log = csrr.synthetic(noise=0.2, seed=3).log
train, test = csrr.split(log, ratio=0.8, seed=0)
path = csrr.path(
    train, n=16, weakest=0.1, cost_ratio=1.0, reg_sparse=1.0, neighbors=0
)
csrr.plot(path)

# %%
# Which strength ranks best?
# --------------------------
# A weak penalty follows the noise: it fits the training data ever better,
# and ranks what was held out worse. A strong one leaves out what people
# share.

strengths = [point.reg_low_rank for point in path]
found = [
    csrr.evaluate(path.model(place), train, test, at=10)
    for place in range(len(path))
]
ndcg = [each["ndcg@10"] for each in found]
low, high = zip(*(each.interval("ndcg@10") for each in found), strict=True)
csrr.plot_lines(
    {"held-out choices": (strengths, ndcg, low, high)},
    title="Neither too strong nor too weak",
    x="reg_low_rank",
    y="NDCG@10",
    caption="Bars are 95 % intervals over users.",
    log=True,
)

# %%
# ``CSRR()`` looks for that place by itself, on choices that it holds out of
# the training data.

model = csrr.CSRR(cost_ratio=1.0, reg_sparse=1.0, neighbors=0).fit(train)
model.chosen_
