"""
Costs and thresholds
====================

A sale that was missed costs you 5, an unwanted suggestion 1. How should the
model be fitted, and from which score on should it suggest?
"""

# %%
# The curve
# ---------
# Fits with several weights of clicks. For each, the threshold is chosen on
# one held-out part of the data, and what it costs is counted on another.

import csrr

log = csrr.synthetic(400, 120, events_per_user=20, seed=2).log
curve = csrr.cost_curve(log, miss=5, false_alarm=1)
csrr.plot(curve)

# %%
curve

# %%
# Lists that stop where it no longer pays
# ---------------------------------------
# The model can say how probable an event is, once it is calibrated on
# held-out events. Below a certain probability a suggestion costs more than
# it brings.

train, heldout = csrr.split(log, ratio=0.8, seed=0)
model = csrr.CSRR(miss_cost=5, false_alarm_cost=1).fit(train)
model.calibrate(heldout)
print(f"it pays from a probability of {model.decision_probability:.3f} on")

# %%
# So some people get many suggestions, and some get few.

import numpy as np

lists = model.recommend(k=20, min_probability="cost")
lengths = (lists.scores > -np.inf).sum(axis=1)
at = np.arange(0, 21)
csrr.plot_lines(
    {"users": (at, [(lengths >= n).mean() for n in at])},
    title="How many suggestions pay",
    x="suggestions",
    y="share of users who get at least so many",
    caption="Lists of 20 at most, cut where it no longer pays.",
)
