"""One calibration curve against curves of groups, on cells that neither the fit nor the calibration has seen.

python -m benchmarks.calibration_groups: the log loss, and the gap between said and true over deciles of items by
popularity and of users by activity.
"""

import numpy as np

import csrr

SEEDS = (2, 3)


def measure(name: str, log: csrr.Log, kind: type[csrr.Recommender], seed: int) -> None:
    """Print a line for one curve and one for five groups of items and of users."""
    train, rest = csrr.split(log, ratio=0.6, seed=seed)
    valid, test = csrr.split(rest, ratio=0.5, seed=seed)
    model = kind().fit(train)
    unseen = model.seen_.toarray() == 0
    positive = np.zeros(unseen.shape, np.bool_)
    positive[test.user_rows, test.item_rows] = True
    for n_groups in (1, 5):
        model.calibrate(valid, n_groups=n_groups)
        said = model.probability(model.users_.ids)
        gaps = [
            [abs(said[mine].mean() - positive[mine].mean()) for mine in deciles]
            for deciles in (split_cells(unseen, 0), split_cells(unseen, 1))
        ]
        items, users = (f"{np.mean(each):.5f} (most {max(each):.5f})" for each in gaps)
        loss = log_loss(said[unseen], positive[unseen])
        print(
            f"{name} {kind.__name__} seed {seed}, groups {n_groups}: log loss {loss:.6f}, items {items}, users {users}"
        )


def split_cells(unseen: np.ndarray, axis: int) -> list[np.ndarray]:
    """Return the unseen cells of each tenth of the items (axis 0) or users (axis 1), by number of training events."""
    order = np.argsort(np.argsort((~unseen).sum(axis), kind="stable"), kind="stable")
    decile = order * 10 // len(order)
    return [unseen & (decile == each if axis == 0 else (decile == each)[:, None]) for each in range(10)]


def log_loss(said: np.ndarray, positive: np.ndarray) -> float:
    """Return the mean log loss, probabilities kept a millionth away from 0 and 1."""
    inside = np.clip(said, 1e-6, 1 - 1e-6)
    return float(-np.log(np.where(positive, inside, 1 - inside)).mean())


def main() -> None:
    """Measure MovieLens-100K and two sizes of synthetic logs."""
    movies = csrr.read(csrr.data_dir() / "ml-100k.zip")
    for kind in (csrr.WRMF, csrr.EASE, csrr.CSRR):
        for seed in SEEDS:
            measure("ml-100k", movies, kind, seed)
    for kind in (csrr.WRMF, csrr.EASE):
        measure("synthetic 800 x 400", csrr.synthetic(800, 400, events_per_user=20, seed=5).log, kind, 2)
        measure("synthetic 200 x 150", csrr.synthetic(200, 150, events_per_user=12, seed=5).log, kind, 2)


if __name__ == "__main__":
    main()
