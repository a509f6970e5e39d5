"""The tasks of a first week with a shop's log, on Steam's purchases: python examples/first_week.py [steam.zip]."""

import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

import csrr

source = sys.argv[1] if len(sys.argv) > 1 else csrr.locate("steam.zip")
folder = Path(tempfile.mkdtemp())
with zipfile.ZipFile(source) as archive:
    tables = {name: pd.read_csv(archive.open(f"steam/{name}.dat"), sep="\t") for name in ("game_play", "game_purchase")}

# 1. Read, with hours played as weights and titles. This log has no dates: we make some up.
events = tables["game_purchase"].merge(tables["game_play"], how="left", on=["User_ID", "Game_ID"])
events["Hours"] = events["Hours"].fillna(0.1)
events["date"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(
    np.random.default_rng(0).integers(0, 300, len(events)), "D"
)
active = events["User_ID"].map(events["User_ID"].value_counts()) >= 5
log = csrr.read(events[active], weight="Hours")
games = csrr.read_items(source, member="steam/item_info.dat", title="Game Name")
print(log, log.columns, games, sep="\n")

# 2. Split in time; what is held out last is the test.
train, test = csrr.split(log, at="2026-09-01")

# 3. Fit, and 4. recommend to one user, with reasons.
model = csrr.CSRR(max_rank=64).fit(train).set_items(games)
user = train.users.ids[0].item()
recs = model.recommend(user, k=5)
best = recs.items[0, 0].item()
print(recs, model.explain(user, best), sep="\n")

# 5. All users to a file.
print(model.recommend_to(folder / "lists.parquet", k=10))

# 6. Somebody new, by what they have; 7. somebody of whom nothing is known.
print(model.recommend_for([10, 20], k=3), model.recommend_for([], k=3), sep="\n")

# 8. Tomorrow's events.
model.update(test)
print(model.chosen_.growth_note)

# 9. What is like it.
print(model.similar_items(best, k=3))
# 10. Only what is in stock, 11. at most one of a series, 12. some of it pushed, 13. lists of their own for some.
stock = model.items_.ids[::2]
model.set_items({"item": model.items_.ids, "series": [str(title).split()[0] for title in model.titles_]})
print(
    model.recommend(user, k=5, candidates=stock, at_most={"series": 1}, boost={int(stock[0]): 2.0}, columns=["series"])
)
print(model.recommend([1, 3], k=2, candidates={1: stock[:5], 3: stock[5:9]}, exclude_seen=False))

# 14. Is it better than what else there is, and how sure is that?
rivals = {"CSRR": csrr.CSRR(max_rank=64), "WRMF": csrr.WRMF(rank=64), "PopRank": csrr.PopRank()}
print(
    csrr.compare({name: csrr.evaluate(each.fit(train), train, test, at=10) for name, each in rivals.items()}, "ndcg@10")
)

# 15. Tune, 16. and give the vectors to an index.
print(csrr.tune(csrr.ItemKNN, train, space={"neighbors": [20, 100]}, metric="ndcg@10"))
print(csrr.export(rivals["WRMF"], folder / "vectors", to="faiss", k=10))
