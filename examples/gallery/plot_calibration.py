"""
Scores that mean something
==========================

A score ranks. A calibrated model also says how probable an event is; a
reliability diagram shows whether to believe it.
"""

# %%
# Three parts of the data
# -----------------------
# One to fit, one to calibrate, one to check.

import csrr

log = csrr.synthetic(600, 120, events_per_user=25, seed=2).log
train, rest = csrr.split(log, ratio=0.6, seed=0)
heldout, test = csrr.split(rest, ratio=0.5, seed=0)
model = csrr.CSRR().fit(train)
model.calibrate(heldout)
model.recommend([0, 1], k=3)

# %%
# Said, and come true
# -------------------
# Of what was said to have a probability of 0.2, a fifth should happen.
# Points on the diagonal keep that promise.

reliability = model.reliability(test)
csrr.plot(reliability)

# %%
# For whom?
# ---------
# The same for items of few and of many events, and for light and heavy
# users.

reliability.by_popularity

# %%
reliability.by_activity
