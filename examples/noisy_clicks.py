"""Find clicks that no taste explains, where it is known which they are: python examples/noisy_clicks.py"""

import numpy as np

import csrr

made = csrr.synthetic(specific=0.0, noise=0.15)
log = made.log
model = csrr.CSRR(reg_sparse=0.7).fit(log)

# V on the cells of the log, in the log's order: how much of each click common taste leaves unexplained.
unexplained = model.specific_[log.user_rows, log.item_rows]
is_noise = made.truth == 2
print(f"{is_noise.mean():.0%} of {len(log):,} clicks are noise")
for n in (100, 500, 1000):
    suspects = np.argsort(-unexplained, kind="stable")[:n]
    print(f"of the {n} clicks with the largest V, {is_noise[suspects].mean():.0%} are noise")
