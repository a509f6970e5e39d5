"""Models of logs with a target: weights by type count, lists leave out what was bought, files and updates keep it."""

from dataclasses import replace

import numpy as np
import pytest

import csrr
from csrr.models.held_out import hold_out

WEIGHTS = {"view": 1, "buy": 5}


def make_table(n_users=220, n_items=60, seed=0):
    """Views by taste and by chance, and purchases, of which each follows a view of the same taste."""
    data = csrr.synthetic(n_users, n_items, rank=4, events_per_user=15, noise=0.2, seed=seed)
    rng = np.random.default_rng(seed)
    log, n = data.log, len(data.log)
    bought = (data.truth == 0) & (rng.random(n) < 0.3)
    time = rng.integers(0, 1000, n)
    return {
        "user": np.concatenate([log.user_rows, log.user_rows[bought]]),
        "item": np.concatenate([log.item_rows, log.item_rows[bought]]),
        "type": ["view"] * n + ["buy"] * int(bought.sum()),
        "time": np.concatenate([time, time[bought] + rng.integers(1, 200, bought.sum())]),
    }


@pytest.fixture(scope="module")
def log():
    return csrr.read(make_table(), event="type", weights=WEIGHTS, target="buy")


@pytest.fixture(scope="module")
def parts(log):
    return csrr.split(log, time_quantile=0.7)


def list_pairs(log):
    return set(zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True))


@pytest.mark.parametrize(
    "model", [csrr.PopRank(), csrr.EASE(10), csrr.WRMF(4, reg=5.0), csrr.CSRR(reg_low_rank=0.2, neighbors=0)], ids=repr
)
def test_lists_leave_out_what_was_bought(model, parts, tmp_path):
    train, test = parts
    model.fit(train)
    recs = model.recommend(k=train.n_items)
    bought = list_pairs(train.of_target())
    listed = {(u, i) for u, row in enumerate(recs.items) for i in row if i is not None}
    assert not listed & bought
    assert list_pairs(train) - bought <= listed
    model.save(tmp_path / "m.csrr")
    again = csrr.load(tmp_path / "m.csrr")
    assert again.event_types.equals(replace(train.types, times=None))
    assert again.recommend(k=5).items.tolist() == model.recommend(k=5).items.tolist()
    found = csrr.evaluate(again, train, test, at=5, metrics=["recall"])
    hits = [len(set(recs.items[u][:5]) & {i for who, i in list_pairs(test) if who == u}) for u in found.users.tolist()]
    assert found.per_user["recall@5"] == pytest.approx(np.array(hits) / found.n_relevant)


def test_viewed_and_not_bought(parts):
    train, _ = parts
    model = csrr.EASE(10).fit(train)
    recs = model.recommend(k=train.n_items, candidates=train)
    listed = {(u, i) for u, row in enumerate(recs.items) for i in row if i is not None}
    assert listed == list_pairs(train.select(~train.is_target))


def test_what_is_viewed_and_then_bought_is_found(parts):
    train, test = parts
    again = list_pairs(train) & list_pairs(test)
    assert again
    assert not list_pairs(train.of_target()) & list_pairs(test)
    found = csrr.evaluate(csrr.PopRank().fit(train), train, test, at=5)
    assert found.n_relevant.sum() == len(test)
    assert found.n_users == len(np.unique(test.user_rows))


def test_the_test_may_have_other_types_than_the_target(parts, log):
    train, _ = parts
    model = csrr.PopRank().fit(train)
    all_events = csrr.evaluate(model, train, log, at=5)
    assert all_events.n_relevant.sum() == len(list_pairs(log.of_target()) - list_pairs(train.of_target()))


@pytest.mark.parametrize("kind", [csrr.CSRR, csrr.CSRRe, csrr.WRMF])
def test_weights_by_type_count_unless_they_are_to_be_ignored(kind, parts):
    params = {"reg": 5.0, "rank": 4} if kind is csrr.WRMF else {"reg_low_rank": 0.2, "neighbors": 0}
    train, _ = parts
    plain = replace(train, types=None)
    fitted = {name: kind(event_weights=name, **params).fit(train) for name in ("ignore", "linear")}
    default = kind(**params).fit(train)
    assert (default.event_weights, default.weighs_events) == ("auto", True)
    assert np.array_equal(default.item_factors_, fitted["linear"].item_factors_)
    assert not np.array_equal(default.item_factors_, fitted["ignore"].item_factors_)
    # Weights of other logs count only if asked for, as ever.
    plain_fit = kind(**params).fit(plain)
    assert np.array_equal(plain_fit.item_factors_, fitted["ignore"].item_factors_)
    assert not plain_fit.weighs_events


def test_time_decay_goes_with_types(parts):
    train, _ = parts
    params = {"reg_low_rank": 0.2, "neighbors": 0, "half_life": "5min"}
    both = csrr.CSRR(**params).fit(train)
    alone = csrr.CSRR(**params, event_weights="ignore").fit(train)
    assert not np.array_equal(both.item_factors_, alone.item_factors_)
    by_hand = csrr.CSRR(reg_low_rank=0.2, neighbors=0, event_weights="linear").fit(train.decay("5min"))
    assert np.allclose(both.item_factors_, by_hand.item_factors_)


@pytest.mark.parametrize("model", [csrr.EASE(10), csrr.CSRR(reg_low_rank=0.2, neighbors=0)], ids=repr)
def test_an_update_joins_types(model, log, parts):
    train, test = parts
    model.fit(train).update(test)
    again = type(model)(**model.get_params()).fit(log)
    later = log.types.cells.sum() - train.types.cells.sum() - test.types.cells.sum()
    assert later > 0  # views after the cut are in no part
    bought = log.of_target()
    assert list_pairs(model.training_log().of_target()) == list_pairs(bought)
    assert np.array_equal(model.seen_of_target.toarray(), again.seen_of_target.toarray())
    with pytest.raises(csrr.DataError):
        model.update({"user": [1], "item": [2], "time": [3]})
    with pytest.raises(csrr.DataError, match="same weights= and target="):
        model.update(csrr.read(make_table(), event="type", weights=WEIGHTS))


def test_the_search_asks_for_the_target_alone(log):
    rest, asked, _ = hold_out(log, 0)
    assert asked.is_target.all()
    assert not list_pairs(rest) & list_pairs(asked)
    counts, of_target = asked.user_counts(), log.of_target().user_counts()
    assert (counts <= np.ceil(of_target / 2)).all()
    plain = replace(log, types=replace(log.types, target=None))
    for mine, theirs in zip(hold_out(plain, 0)[:2], hold_out(replace(log, types=None), 0)[:2], strict=True):
        assert list_pairs(mine) == list_pairs(theirs)
    assert not hold_out(plain, 0)[1].types.cells[:, 1].all()


def test_tuning_judges_by_the_target(log):
    found = csrr.tune(csrr.ItemKNN, log, space={"neighbors": [3, 20]}, metric="recall@5", trials=2)
    train, valid = csrr.split(log, 0.9)
    model = found.best.params
    by_hand = csrr.evaluate(csrr.ItemKNN(**model).fit(train), train, valid, at=5, metrics=["recall"])
    assert found.best_value == pytest.approx(by_hand["recall@5"])
    given = csrr.tune(csrr.ItemKNN, train, space={"neighbors": [3, 20]}, metric="recall@5", trials=2, valid=valid)
    assert given.best_value == pytest.approx(found.best_value)


def test_calibration_is_of_the_target(parts):
    train, test = parts
    model = csrr.EASE(10).fit(train)
    model.calibrate(test, observed_share=0.5)
    cells = train.n_users * train.n_items - len(train.of_target())
    assert model.calibration_.n_cells.sum() == cells
    assert model.calibration_.n_positives.sum() == len(test)


def test_a_file_with_types_that_do_not_fit(parts, tmp_path):
    from csrr.models.store import read, write

    model = csrr.PopRank().fit(parts[0])
    model.save(tmp_path / "m.csrr")
    header, arrays = read(tmp_path / "m.csrr")
    amounts = arrays["seen.types.amounts"]
    for name, wrong in {
        "seen.types.target": np.array([2]),
        "seen.types.amounts": np.zeros_like(amounts),
        "seen.types.there": np.array([True, False]),
    }.items():
        write(tmp_path / "bad.csrr", header, arrays | {name: wrong})
        with pytest.raises(csrr.ModelFileError):
            csrr.load(tmp_path / "bad.csrr")
    write(tmp_path / "bad.csrr", header, {name: each for name, each in arrays.items() if name != "seen.types.target"})
    with pytest.raises(csrr.ModelFileError, match=r"'seen\.types\.target' is missing"):
        csrr.load(tmp_path / "bad.csrr")
