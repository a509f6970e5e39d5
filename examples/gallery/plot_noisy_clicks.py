"""
Noisy clicks
============

Slips of the finger, children on the sofa, bots. Here we plant random clicks
in a log and look for them.
"""

# %%
# Plant noise
# -----------
# A fifth of the clicks of this log are drawn at random. ``noisy.planted``
# knows which; the model does not.

import numpy as np

import csrr

genuine = csrr.synthetic(specific=0, noise=0, seed=1).log
noisy = csrr.add_noise(genuine, "random", 0.2, seed=1)
noisy.log

# %%
# Look for it
# -----------
# Each click gets a score: how likely it is noise, under assumptions that
# the docstring of ``Suspects`` states. The settings are those that
# ``csrr.clean`` judges by: strong ones, which do not follow the noise.

judge = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0)
suspects = judge.fit(noisy.log).suspects()
suspects

# %%
# How many are found?
# -------------------
# Look through the most suspect clicks first. A rule that suspects clicks on
# rare items finds fewer; a random order finds as many as its share.

rareness = -noisy.log.item_counts()[noisy.log.item_rows]
orders = {"CSRR": suspects.scores, "rare items first": rareness}
looked = np.linspace(0, 1, 21)


def find_share(scores):
    """Return the share found of the planted clicks."""
    ranked = noisy.planted[np.argsort(-scores, kind="stable")]
    found = np.concatenate([[0], np.cumsum(ranked)]) / ranked.sum()
    return found[(looked * len(ranked)).astype(int)]


csrr.plot_lines(
    {name: (looked, find_share(scores)) for name, scores in orders.items()}
    | {"random order": (looked, looked)},
    title="Planted clicks found",
    x="share of all clicks looked through, most suspect first",
    y="share of the planted clicks found",
    caption="A fifth of the clicks is planted.",
)

# %%
# Remove the worst
# ----------------
# ``csrr.clean`` stays on the safe side: one click in a hundred at most
# goes, unless you say how sure it shall be. ``csrr.plan_cleaning`` shows
# first what would go.

csrr.plan_cleaning(noisy.log, above=0.9)
