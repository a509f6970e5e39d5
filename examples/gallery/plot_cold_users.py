"""
People who are new
==================

Somebody who was not in the data gets a list as soon as they have chosen
something. How many choices does it take?
"""

# %%
# People held out
# ---------------
# A fifth of the people are held out altogether. Of their choices, a model
# may see some, and is asked for the others.

import warnings

import numpy as np

import csrr

log = csrr.synthetic(1000, 400, events_per_user=40, seed=4).log
train, given, asked = csrr.split(log, held_out_users=0.2, seed=0)
models = {
    "CSRR": csrr.CSRR().fit(train),
    "ItemKNN": csrr.ItemKNN().fit(train),
    "WRMF": csrr.WRMF().fit(train),
    "PopRank": csrr.PopRank().fit(train),
}

# %%
# More and more choices
# ---------------------
# Nothing is fitted again: a person's own part of the model is computed
# from their history. Of somebody without a choice a model knows nothing,
# and gives popular items.

people = np.flatnonzero(given.user_counts() >= 16)
histories, wanted = given.to_csr()[people], asked.to_csr()[people].toarray()
choices = np.split(histories.indices, histories.indptr[1:-1])
lengths = [0, 1, 2, 4, 8, 16]


def measure_precision(model, length):
    """Return the share of hits in lists of ten, by so many choices."""
    folded = model.fold_in([items[:length].tolist() for items in choices])
    lists = folded.recommend(k=10, exclude_seen=histories)
    return np.take_along_axis(wanted, lists.items, axis=1).mean()


with warnings.catch_warnings():
    warnings.simplefilter("ignore", csrr.NoHistoryWarning)
    precision = {
        name: (lengths, [measure_precision(model, n) for n in lengths])
        for name, model in models.items()
    }
csrr.plot_lines(
    precision,
    title="What a few choices are worth",
    x="choices known of a new person",
    y="precision@10",
    caption=f"Mean over {len(people)} people whom no model was fitted to.",
)

# %%
# One of them
# -----------

models["CSRR"].recommend_for([3, 11, 19], k=5)
