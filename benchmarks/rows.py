"""Every row of `python -m benchmarks`, by name, in the order of the page."""

from benchmarks import (
    bench_first_use,
    bench_lists,
    bench_metrics,
    bench_threshold,
    bench_topk,
    bench_weights,
    calibration,
    exact,
    factored,
    whole,
)

ROWS = {
    name: row
    for module in (
        exact,
        factored,
        whole,
        calibration,
        bench_threshold,
        bench_weights,
        bench_metrics,
        bench_topk,
        bench_lists,
        bench_first_use,
    )
    for name, row in module.ROWS.items()
}
