"""Fit a model and recommend: python examples/quickstart.py [log], on made-up data if no log is given."""

import sys

import csrr

log = csrr.read(sys.argv[1]) if len(sys.argv) > 1 else csrr.synthetic().log
train, test = csrr.split(log, ratio=0.8, seed=0)
model = csrr.CSRR().fit(train)
print(model.certificate_)

user = log.users.ids[0]
recommended = model.recommend(user, k=5)
print(recommended)
print(model.explain(user, recommended.items[0, 0]))
print(csrr.evaluate(model, train, test, at=(5, 10)))
