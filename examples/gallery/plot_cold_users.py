"""
People who are new
==================

Somebody who was not in the data gets a list as soon as they have chosen something. How
many choices does it take?
"""

# %%
# People held out
# ---------------
# A fifth of the people are held out altogether. Of their choices, a model may see some,
# and is asked for the others.

import warnings

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
# Nothing is fitted again: a person's own part of the model is computed from their
# history. Of somebody without a choice a model knows nothing, and gives what is
# popular.

people = [row for row, n in enumerate(given.user_counts()) if n >= 16]
histories = given.to_csr()
wanted = asked.to_csr()
lengths = [0, 1, 2, 4, 8, 16]


def measure_hits(model, length):
    """Return the mean share of hits in lists of ten for people with so many choices."""
    known = [
        log.items.ids[histories.indices[histories.indptr[row] :][:length]].tolist()
        for row in people
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", csrr.NoHistoryWarning)
        lists = model.fold_in(known).recommend(k=10, exclude_seen=True)
    hits = [
        len(set(items.tolist()) & set(log.items.ids[wanted[[row]].indices].tolist()))
        for row, items in zip(people, lists.items, strict=True)
    ]
    return sum(hits) / (10 * len(hits))


csrr.plot_lines(
    {
        name: (lengths, [measure_hits(model, n) for n in lengths])
        for name, model in models.items()
    },
    title="What a few choices are worth",
    x="choices known of a new person",
    y="precision@10",
    caption=f"Mean over {len(people)} people whom no model was fitted to.",
)

# %%
# One of them
# -----------

models["CSRR"].recommend_for([3, 11, 19], k=5)
