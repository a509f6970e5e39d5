# pyright: strict
"""What a user does, from a file to a saved model and a chart: it runs, and type checkers have nothing to say.

python tests/typing/user_script.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import csrr


def read_data(folder: Path) -> csrr.Log:
    """A log from a file, which is written first; others from columns and from a matrix."""
    file = folder / "clicks.csv"
    made: csrr.Log = csrr.synthetic(80, 60, events_per_user=12, seed=1).log
    pairs = zip(made.user_rows.tolist(), made.item_rows.tolist(), strict=True)
    file.write_text("user,item\n" + "".join(f"u{user},i{item}\n" for user, item in pairs))
    log = csrr.read(file, user="user", item="item")
    columns: csrr.Log = csrr.read({"user": ["a", "a", "b"], "item": ["x", "y", "x"]})
    shop = csrr.read(
        {"user": [1, 1], "item": [2, 2], "type": ["view", "buy"]},
        event="type",
        weights={"view": 1, "buy": 3.0},
        target="buy",
    )
    types: csrr.EventTypes | None = shop.types
    assert types is not None
    assert (types.names, types.target) == (("view", "buy"), "buy")
    matrix = csrr.Log.from_matrix(columns.to_csr())
    sizes: tuple[int, int, float] = log.n_users, matrix.n_items, log.density
    assert sizes[:2] == (80, 2)
    counts: npt.NDArray[np.int64] = log.item_counts()
    assert counts.sum() == len(log)
    return log


def split_data(log: csrr.Log) -> tuple[csrr.Log, csrr.Log]:
    """Training and test events; and a split by users, which has three parts."""
    held: csrr.HeldOut = csrr.split(log, held_out_users=10, seed=0)
    assert len(held.train) + len(held.given) + len(held.asked) == len(log)
    train, test = csrr.split(log, ratio=0.8, seed=0)
    return train, test


def fit_models(train: csrr.Log) -> dict[str, csrr.Recommender]:
    """Models of several kinds, fitted."""
    mine = csrr.CSRR(reg_low_rank="noise", neighbors=5, max_iter=20).fit(train)
    costly: csrr.CSRR = csrr.CSRR.from_costs(miss=10.0, false_alarm=1.0)
    params: dict[str, object] = costly.get_params()
    assert params["miss_cost"] == 10.0
    gap: float = mine.certificate_.gap
    assert gap >= 0
    plays = csrr.read({"user": [1, 1, 2, 2], "item": ["a", "b", "a", "c"]}, ordered=True)
    nexts: list[csrr.Recommender] = [csrr.MarkovChain(decay=0.5).fit(plays), csrr.VSKNN(neighbors=50).fit(plays)]
    assert all(len(each.recommend_for(["a"], k=1).items[0]) == 1 for each in nexts)
    session = csrr.CSRR(order="next", decay=[0.3, 0.8]).fit(plays).session(history=["a"])
    session.add("b")
    print(session.recommend(k=1).items, session.history)
    return {"CSRR": mine, "PopRank": csrr.PopRank().fit(train), "ItemKNN": csrr.ItemKNN(neighbors=20).fit(train)}


def recommend(model: csrr.CSRR, log: csrr.Log) -> None:
    """Lists, scores, what is alike, why, and people who were not there."""
    user: str = str(log.users.ids[0])
    lists: csrr.Recommendations = model.recommend([user], k=5)
    items: npt.NDArray[np.generic] = lists.items
    best = lists.to_dict()
    assert len(items[0]) == len(best[user]) == 5
    scores: npt.NDArray[np.float32] = model.score([user], [str(items[0][0])])
    assert np.isfinite(scores).all()
    for line in (model.explain(user, str(items[0][0])), model.similar_items(str(items[0][0]), k=3)):
        print(line)
    history: list[str] = [str(item) for item in log.history(user)]
    print(model.recommend_for(history, k=3))
    print(model.fold_in([history]).recommend(k=3).to_frame())
    kinds: csrr.FeatureTable = csrr.read_features({"item": log.items.ids, "kind": ["a", "b"] * (log.n_items // 2)})
    told: csrr.CSRR = csrr.CSRR(neighbors=3).fit(log, items=kinds).add_items({"item": ["new"], "kind": ["a"]})
    print(told.features_, told.recommend([user], k=3))


def judge(models: dict[str, csrr.Recommender], train: csrr.Log, test: csrr.Log) -> csrr.Comparison:
    """Measures of every model, side by side, and which is better."""
    found: dict[str, csrr.Evaluation] = {
        name: csrr.evaluate(model, train, test, at=(5, 10)) for name, model in models.items()
    }
    value: float = found["CSRR"]["ndcg@10"]
    low, high = found["CSRR"].interval("ndcg@10")
    assert low <= value <= high
    print(csrr.tabulate(found, metrics=["ndcg@10", "recall@10"]))
    return csrr.compare(found, metric="ndcg@10", baseline="PopRank")


def choose(train: csrr.Log) -> csrr.Tuning:
    """A short search for settings."""
    search = csrr.tune(csrr.CSRRe(rank=4), train, space={"reg_low_rank": csrr.Range(0.1, 2.0, log=True)}, trials=2)
    best: dict[str, object] = search.best_params
    assert "rank" in best
    return search


def weigh_costs(log: csrr.Log, folder: Path) -> csrr.CostCurve:
    """What a miss and a false alarm cost along cost ratios, as a chart."""
    curve = csrr.cost_curve(log, miss=10.0, false_alarm=1.0, ratios=(1.0, 4.0), max_iter=20, neighbors=0)
    chart: csrr.Plot = csrr.plot(curve, folder / "costs.svg")
    chart.save(folder / "costs.html")
    return curve


def look_for_noise(model: csrr.CSRR, log: csrr.Log) -> csrr.Log:
    """Clicks that nobody may have meant, and the log without the worst."""
    suspects: csrr.Suspects = model.suspects()
    share: float | None = suspects.noise_share
    plan: csrr.Cleaning = csrr.plan_cleaning(log, model=model)
    print(share, plan.above)
    return plan.log


def keep(model: csrr.CSRR, folder: Path) -> csrr.Recommender:
    """The model, saved and loaded."""
    model.save(folder / "model.csrr")
    again: csrr.Recommender = csrr.load(folder / "model.csrr")
    with csrr.open_dask(folder=folder / "work", n_workers=2, memory_limit="1GB") as engine:
        assert "engine" in csrr.CSRR(max_rank=8, engine=engine).get_params()
    assert isinstance(again, csrr.CSRR)
    print(csrr.publish(again, folder / "lists.db", k=5).n_rows)
    return again


def main(folder: Path) -> None:
    """All of it."""
    log = read_data(folder)
    train, test = split_data(log)
    models = fit_models(train)
    model = models["CSRR"]
    assert isinstance(model, csrr.CSRR)
    recommend(model, train)
    print(judge(models, train, test))
    print(choose(train).best_value)
    print(weigh_costs(log, folder).recommended)
    assert len(look_for_noise(model, train)) <= len(train)
    assert keep(model, folder).recommend(k=3).to_list() == model.recommend(k=3).to_list()
    try:
        csrr.read(folder / "nowhere.csv")
    except csrr.DataError as error:
        print(error)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
