"""
A map of the items
==================

A model learns of each item a vector: what kind of people choose it. Items
that are chosen by the same people lie close together, and a map of the
vectors shows what there is.
"""

# %%
# Vectors
# -------
# The model has seen who chose what, and neither titles nor genres.

import numpy as np

import csrr

log = csrr.synthetic(800, 320, rank=8, seed=5).log
model = csrr.CSRR().fit(log)
model.item_vectors.shape

# %%
# From many dimensions to two
# ---------------------------
# Distances on the map shall be as near as possible to those between the
# vectors: multidimensional scaling, by steps that never make it worse
# (SMACOF). Colors and shapes are the genres in the titles, which the map
# was not told.


def lay_out(vectors, steps=150, seed=0):
    """Return places on a plane, shape (n, 2), of vectors of length 1."""
    wanted = np.sqrt(np.maximum(2 - 2 * vectors @ vectors.T, 0))
    itself = np.eye(len(vectors))  # so that nothing is divided by 0
    places = np.random.default_rng(seed).normal(size=(len(vectors), 2))
    for _ in range(steps):
        apart = np.linalg.norm(places[:, None] - places, axis=2)
        pull = wanted / (apart + itself)
        drawn = pull.sum(axis=1, keepdims=True) * places - pull @ places
        places = drawn / len(places)
    return places


places = lay_out(model.item_vectors)
genres = np.array([title.split()[0] for title in log.titles])
popular = np.argsort(-model.popularity)[:24]
names = np.full(len(genres), None, object)
names[popular] = log.titles[popular]
groups = {genre: genres == genre for genre in dict.fromkeys(genres)}
csrr.plot_points(
    {genre: places[which] for genre, which in groups.items()},
    labels={
        genre: names[which].tolist() for genre, which in groups.items()
    },
    title="Music by who listens to it",
    caption="A point is an item. The most popular have their names.",
)

# %%
# Neighbors on the map are alike in the model.

model.similar_items(int(popular[0]), k=5)
