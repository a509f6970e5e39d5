"""Counters of all workers in one piece of shared memory, and their text for Prometheus."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from csrr.serve.processes import SHARED_BYTES

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The upper bounds of the histogram of seconds."""
STATUSES = (200, 202, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 503)
COUNTERS = {
    "csrr_worker_starts_total": "Workers started.",
    "csrr_events_stored_total": "Events stored.",
    "csrr_events_refused_total": "Events that could not be stored.",
    "csrr_shed_total": "Requests refused because too many were waiting.",
    "csrr_model_replaced_total": "Times a worker took a newer model.",
    "csrr_model_problems_total": "Times a worker could not load a newer file.",
}


class Meters:
    """Counters of one worker, and the sums over all.

    Parameters
    ----------
    routes
        The names of the routes.
    shared
        The descriptor of a file of zeros that all workers have, so many bytes for each; -1 for memory of its own.
    worker, n_workers
        The number of this worker, and how many there are.
    """

    def __init__(self, routes: Sequence[str], shared: int = -1, worker: int = 0, n_workers: int = 1) -> None:
        self._routes = {name: place for place, name in enumerate(routes)}
        self._statuses = {status: place for place, status in enumerate(STATUSES)}
        self._own = {name: place for place, name in enumerate(COUNTERS)}
        # Of each route: requests by status, buckets of seconds, and their sum.
        self._of_route = len(STATUSES) + len(BOUNDS) + 2
        self._all = memoryview(mmap.mmap(shared, SHARED_BYTES * n_workers)).cast("d")
        self._step, self._n_workers = SHARED_BYTES // 8, n_workers
        if len(COUNTERS) + len(routes) * self._of_route > self._step:
            raise ValueError(f"{len(routes)} routes are more than there is room for counters")
        self._mine = self._all[worker * self._step : (worker + 1) * self._step]

    def count(self, name: str, n: float = 1) -> None:
        """Add to a counter."""
        self._mine[self._own[name]] += n

    @property
    def has_begun(self) -> bool:
        """Whether a worker ever began."""
        return self._sum(self._own["csrr_worker_starts_total"]) > 0

    def see(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        start = len(COUNTERS) + self._routes[route] * self._of_route
        self._mine[start + self._statuses.get(status, len(STATUSES) - 2)] += 1
        start += len(STATUSES)
        self._mine[start + bisect_left(BOUNDS, seconds)] += 1
        self._mine[start + len(BOUNDS) + 1] += seconds

    def _sum(self, place: int) -> float:
        return sum(self._all[place + worker * self._step] for worker in range(self._n_workers))

    def write(self, **gauges: float) -> str:
        """Return all of it as text for Prometheus; `gauges` are those of the worker that is asked."""
        lines = []
        for name, text in COUNTERS.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter", f"{name} {self._sum(self._own[name]):g}"]
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value!r}"]
        lines += ["# HELP csrr_requests_total Requests answered.", "# TYPE csrr_requests_total counter"]
        for route, place in self._routes.items():
            start = len(COUNTERS) + place * self._of_route
            for status, at in self._statuses.items():
                if n := self._sum(start + at):
                    lines.append(f'csrr_requests_total{{route="{route}",status="{status}"}} {n:.0f}')
        lines += ["# HELP csrr_request_seconds Seconds to answer.", "# TYPE csrr_request_seconds histogram"]
        for route, place in self._routes.items():
            start = len(COUNTERS) + place * self._of_route + len(STATUSES)
            sums = list(accumulate(self._sum(start + at) for at in range(len(BOUNDS) + 1)))
            if sums[-1]:
                labels = [f"{bound:g}" for bound in BOUNDS] + ["+Inf"]
                for label, n in zip(labels, sums, strict=True):
                    lines.append(f'csrr_request_seconds_bucket{{route="{route}",le="{label}"}} {n:.0f}')
                lines.append(f'csrr_request_seconds_sum{{route="{route}"}} {self._sum(start + len(BOUNDS) + 1):g}')
                lines.append(f'csrr_request_seconds_count{{route="{route}"}} {sums[-1]:.0f}')
        return "\n".join(lines) + "\n"
