"""Choose parameters without looking at the test: python examples/tune.py [log], on made-up data if no log is given."""

import sys

import csrr

log = csrr.read(sys.argv[1]) if len(sys.argv) > 1 else csrr.synthetic().log
train, test = csrr.split(log, ratio=0.8, seed=0)
found = csrr.tune("wrmf", train, trials=12)
print(found)

for name, model in (("defaults", csrr.WRMF()), ("tuned", found.model())):
    result = csrr.evaluate(model.fit(train), train, test, at=10)
    print(f"{name:8} NDCG@10 on the test {result['ndcg@10']:.4f}")
