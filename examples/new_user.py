"""Recommend to someone the model has never seen, from a few items they chose: python examples/new_user.py"""

import csrr

log = csrr.synthetic().log
model = csrr.CSRR().fit(log)

jazz = [item for item, title in zip(log.items, log.titles, strict=True) if title.startswith("jazz")][:4]
print("someone new chose", ", ".join(log.title(log.items.row(item)) for item in jazz))
print(model.recommend_for(jazz, k=8))
