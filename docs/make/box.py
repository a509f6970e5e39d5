"""The box on MovieLens-1M, for the reproduction's page: one sentence of docs/results/box.json."""

from typing import Any

from csrr._base.text import format_fixed, format_percent
from csrr_paper.printed import DATA, PRINTED

_COLUMN, _METRIC = "NDCG@5", "list_ndcg@5"


def describe_box(found: dict[str, Any]) -> str:
    """What the box changes with the parameters chosen without it, and with targets that fit in it."""
    chosen, divided = found["fits"]
    alpha = chosen["params"]["positive_cost"] / (1 - chosen["params"]["positive_cost"])
    (free, boxed), (free_1, boxed_1) = (
        [format_fixed(fit["found"][form][_METRIC]) for form in ("free", "boxed")] for fit in (chosen, divided)
    )
    below = format_percent(divided["outside"]["below"])
    return (
        f"Algorithm 1 keeps U and V in [0, 1]. Run with that box on {DATA[found['data']].label} (split"
        f" {found['split']}, the parameters chosen for CSRR-II without it), {_COLUMN} is {boxed} instead of {free}: the"
        f" targets of loss II are α = {alpha:.3g}, outside the box. With α = 1, so that the targets are inside, and λ₁"
        f" divided by {alpha:.3g}, it is {boxed_1} with the box and {free_1} without, where {below} of the scores are"
        f" negative. The paper prints {format_fixed(PRINTED[found['data']]['CSRR-II'][_COLUMN])}."
    )
