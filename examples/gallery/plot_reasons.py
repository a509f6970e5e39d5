"""
The reasons for a recommendation
================================

A score is a sum over what a person chose before. So every recommendation
has its reasons, with numbers that add up.
"""

# %%
# A model and somebody's list
# ---------------------------

import csrr

log = csrr.synthetic(seed=0).log
model = csrr.CSRR().fit(log)
user = 6
recs = model.recommend(user, k=5)
recs

# %%
# Why the first?
# --------------
# Blue is what reaches the item through the taste that people share, orange
# what comes straight from item to item: people who have this one have that
# one too.

why = model.explain(user, recs.items[0, 0])
csrr.plot(why)

# %%
# The amounts of all choices sum to the score.

why.score, float(why.amounts.sum())

# %%
# What is nobody else's taste
# ---------------------------
# Some choices are not explained by what others do. They are the user's own:
# a taste that few share, if several go together, and perhaps an accident,
# if one stands alone.

model.specific_preferences(user)

# %%
# Similar items
# -------------

model.similar_items(recs.items[0, 0], k=5)
