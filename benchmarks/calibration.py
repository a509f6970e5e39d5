"""Rows on probabilities: their error where the truth is planted, and one curve against curves of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import csrr
from benchmarks.measure import Row, Values
from csrr.ranking.topk import Cells

SEEDS = (2, 3)
N_GROUPS = 5


def measure_planted() -> Values:
    """The worst of CSRR and WRMF over three seeds: all choices shown, half of them, not corrected.

    The calibration error, which a constant has as small, and the log loss over that of the base rate, a proper score.
    """
    found = [_measure_one(kind, seed) for kind in (csrr.CSRR, csrr.WRMF) for seed in range(3)]
    worst = {name: max(each[name] for each in found) for name in found[0]}
    small = max(worst["all"], worst["half"]) <= 0.02
    return worst | {"reached": small and max(worst["all_loss"], worst["half_loss"]) < 1}


def _measure_one(kind: type[csrr.Recommender], seed: int) -> dict[str, float]:
    chosen, rng = plant_choices(seed)
    part = rng.choice(3, chosen.shape, p=[0.6, 0.2, 0.2])
    train, valid, test = (_to_csr(chosen & (part == each)) for each in range(3))
    model = kind().fit(train)
    model.calibrate(valid)
    whole, whole_loss = model.reliability(test).ece, _compare_loss(model, test)
    shown = chosen & (rng.random(chosen.shape) < 0.5)
    seen = shown & (rng.random(chosen.shape) < 0.7)
    model = kind().fit(_to_csr(seen))
    held, truth = _to_csr(shown & ~seen), _to_csr(chosen & ~seen)
    cells = Cells(model.score_rows, np.arange(len(chosen)), chosen.shape[1], truth, _to_csr(seen))
    corrected = model.calibrate(held, observed_share=0.5).check(cells, observed_share=1).ece
    half_loss = _compare_loss(model, truth)
    plain = model.calibrate(held).check(cells).ece
    return {
        "all": whole,
        "half": corrected,
        "not_corrected": plain,
        "all_loss": whole_loss,
        "half_loss": half_loss,
        "not_corrected_loss": _compare_loss(model, truth),
    }


def _compare_loss(model: csrr.Recommender, relevant: Any) -> float:
    """Return the log loss on the cells not in train over that of the rate of `relevant` among them."""
    unseen = model.seen_.toarray() == 0
    positive = relevant.toarray()[unseen] > 0
    base = np.full(positive.shape, positive.mean())
    return measure_log_loss(model.probability(model.users_.ids)[unseen], positive) / measure_log_loss(base, positive)


def plant_choices(seed: int, n: int = 400, m: int = 250, rank: int = 5, density: float = 0.15) -> tuple[Any, Any]:
    """Choices drawn with chances of a low rank, shape (n, m), and the generator that drew them."""
    rng = np.random.default_rng(seed)
    users = rng.dirichlet(np.full(rank, 0.3), n) * rng.lognormal(0, 0.4, (n, 1))
    items = rng.dirichlet(np.full(rank, 0.3), m) * rng.lognormal(0, 0.6, (m, 1))
    chance = users @ items.T
    for _ in range(30):
        chance = np.minimum(chance * density / chance.mean(), 0.95)
    return rng.random((n, m)) < chance, rng


def _to_csr(dense: Any) -> sparse.csr_array:
    return sparse.csr_array(dense.astype(np.float32))


def measure_movielens(kind: type[csrr.Recommender]) -> Values:
    """What groups change on MovieLens-100K, the least and the most over the splits."""
    log = csrr.read("ml-100k.zip")
    return _sum_up([compare_groups(log, kind, seed) for seed in SEEDS])


def measure_synthetic() -> Values:
    """The same on two sizes of synthetic logs, over WRMF and EASE."""
    logs = [csrr.synthetic(800, 400, events_per_user=20, seed=5).log]
    logs.append(csrr.synthetic(200, 150, events_per_user=12, seed=5).log)
    return _sum_up([compare_groups(log, kind, 2) for log in logs for kind in (csrr.WRMF, csrr.EASE)])


def _sum_up(found: list[dict[str, float]]) -> Values:
    values: Values = {"fits": len(found), "better": sum(each["loss"] < 0 for each in found)}
    for name in found[0]:
        changes = [each[name] for each in found]
        values |= {f"{name}_least": min(changes), f"{name}_most": max(changes)}
    return values


def compare_groups(log: csrr.Log, kind: type[csrr.Recommender], seed: int) -> dict[str, float]:
    """By how many per cent groups change the log loss and the mean gaps over deciles of items and of users."""
    train, rest = csrr.split(log, ratio=0.6, seed=seed)
    valid, test = csrr.split(rest, ratio=0.5, seed=seed)
    model = kind().fit(train)
    unseen = model.seen_.toarray() == 0
    positive = np.zeros(unseen.shape, np.bool_)
    positive[test.user_rows, test.item_rows] = True
    found = []
    for n_groups in (1, N_GROUPS):
        model.calibrate(valid, n_groups=n_groups)
        said = model.probability(model.users_.ids)
        gaps = [
            np.mean([abs(said[mine].mean() - positive[mine].mean()) for mine in split_cells(unseen, axis)])
            for axis in (0, 1)
        ]
        found.append(np.array([measure_log_loss(said[unseen], positive[unseen]), *gaps]))
    return dict(zip(("loss", "items", "users"), (100 * (found[1] / found[0] - 1)).tolist(), strict=True))


def split_cells(unseen: np.ndarray, axis: int) -> list[np.ndarray]:
    """Return the unseen cells of each tenth of the items (axis 0) or users (axis 1), by number of training events."""
    order = np.argsort(np.argsort((~unseen).sum(axis), kind="stable"), kind="stable")
    decile = order * 10 // len(order)
    return [unseen & (decile == each if axis == 0 else (decile == each)[:, None]) for each in range(10)]


def measure_log_loss(said: np.ndarray, positive: np.ndarray) -> float:
    """Return the mean log loss, probabilities kept a millionth away from 0 and 1."""
    inside = np.clip(said, 1e-6, 1 - 1e-6)
    return float(-np.log(np.where(positive, inside, 1 - inside)).mean())


def _make_group_row(data: str, work: Any) -> Row:
    return Row(
        data,
        "five groups against one curve, change in %: log loss on held-out cells; mean gap of predicted and observed"
        " rates over deciles of users; of items",
        "{loss_least:+.2f} to {loss_most:+.2f}; {users_least:+.0f} to {users_most:+.0f};"
        " {items_least:+.0f} to {items_most:+.0f} (log loss lower in {better} of {fits})",
        "",
        "",
        work,
    )


ROWS = {
    "calibration": Row(
        "planted choices, 400 x 250, three seeds, `CSRR` and `WRMF`",
        "log loss over that of the base rate, calibration error (ECE), worst case: all choices observed / half of them,"
        " corrected",
        "{all_loss:.3f}, {all:.4f} / {half_loss:.3f}, {half:.4f}",
        "not corrected: {not_corrected_loss:.3f}, {not_corrected:.3f}",
        "1, .02",
        measure_planted,
    ),
    **{
        f"groups-{kind.__name__.lower()}": _make_group_row(
            f"MovieLens-100K, 60/20/20, two splits, `{kind.__name__}`", lambda kind=kind: measure_movielens(kind)
        )
        for kind in (csrr.WRMF, csrr.EASE, csrr.CSRR)
    },
    "groups-synthetic": _make_group_row("synthetic, 800 x 400 and 200 x 150, `WRMF` and `EASE`", measure_synthetic),
}
