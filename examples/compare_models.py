"""Fit every model and compare: python examples/compare_models.py [log], on made-up data if no log is given."""

import sys
import time

import csrr

log = csrr.read(sys.argv[1]) if len(sys.argv) > 1 else csrr.synthetic().log
train, test = csrr.split(log, ratio=0.8, seed=0)
models = [
    csrr.PopRank(),
    csrr.ItemKNN(),
    csrr.BPRMF(),
    csrr.WRMF(),
    csrr.MCShift(),
    csrr.EASE(),
    csrr.CSRRe(factors="nonnegative"),
    csrr.CSRRe(),
    csrr.CSRR(),
]
print(f"{'model':36} {'NDCG@10':>8} {'recall@10':>10} {'seconds':>8}")
for model in models:
    began = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - began
    result = csrr.evaluate(model, train, test, at=10)
    name = repr(model).split(", fitted")[0]
    print(f"{name:36} {result['ndcg@10']:8.4f} {result['recall@10']:10.4f} {seconds:8.2f}")
