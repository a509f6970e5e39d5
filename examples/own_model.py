"""A model of your own, in twenty lines, everywhere that ours go: evaluate, compare, tune, calibrate, suspects, save."""

import tempfile
from pathlib import Path

import numpy as np

import csrr


@csrr.register
class CoCounts(csrr.Recommender):
    """Scores an item by how often it goes with what a user has; popular items count less by `damping`."""

    def __init__(self, *, damping=0.5):
        self.damping = damping

    def fit(self, data):
        log = self.read(data)
        together = (log.to_csr().T @ log.to_csr()).toarray()
        np.fill_diagonal(together, 0)
        self.remember(log)
        self.weights_ = (together / np.maximum(log.item_counts(), 1) ** self.damping).astype(np.float32)
        return self

    def score_histories(self, seen, rows):
        return seen[rows] @ self.weights_

    def score_own(self):
        return self.explained_shares()  # no item speaks for itself


def main():
    log = csrr.synthetic(300, 80, rank=4, events_per_user=15, seed=3).log
    train, test = csrr.split(log, ratio=0.8, seed=0)
    tuned = csrr.tune(CoCounts(), train, space={"damping": (0.0, 1.0)}, trials=5)
    model = tuned.model().fit(train)
    found = {
        "own": csrr.evaluate(model, train, test, at=10),
        "popular": csrr.evaluate(csrr.PopRank().fit(train), train, test, at=10),
    }
    print(csrr.compare(found, "ndcg@10"))
    model.calibrate(test)
    print(model.recommend(model.users_.ids[:2], k=3, min_probability=0.05))
    print(model.recommend_for(model.items_.ids[:3].tolist(), k=3))
    print(repr(model.suspects()))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "own.csrr")
        print(csrr.load(Path(folder) / "own.csrr"))


if __name__ == "__main__":
    main()
