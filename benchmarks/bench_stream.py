"""Memory of writing the lists of all Gowalla users to a file, above the model's: `python -m benchmarks.bench_stream`.

The model, with neighbors, is fitted in one process and loaded in another, whose peak counts from then on. Linux only:
the peak is read from /proc. The figures are kept in docs/results/stream.json.
"""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path

from benchmarks.measure import in_fresh_process
from csrr._base.threads import available_cores

KEPT = Path(__file__).parents[1] / "docs" / "results" / "stream.json"
K = 20
REACH_MB = 300.0
MODEL = {"cost_ratio": 4.0, "reg_low_rank": 0.25, "reg_sparse": 1.0, "user_scaling": 0.35, "item_scaling": 0.45}
MODEL |= {"max_rank": 200, "max_iter": 3, "neighbors": 100, "reg_neighbors": 10.0}

FIT = """
import json, csrr
from benchmarks.measure import gowalla
model = csrr.CSRR(**{model!r}).fit(gowalla()[0])
model.save({path!r})
print(json.dumps({{"rank": model.rank_, "weights between items": int(model.neighbors_.nnz)}}))
"""
WRITE = """
import json, os, time, csrr
def read(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) / 1024
model = csrr.load({path!r})
loaded = read("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here on
started = time.perf_counter()
written = model.recommend_to({out!r}, k={k})
seconds = time.perf_counter() - started
print(json.dumps({{
    "n_users": written.n_users, "n_rows": written.n_rows, "file_mb": os.path.getsize({out!r}) / 2**20,
    "loaded_mb": loaded, "peak_mb": read("VmHWM"), "above_mb": read("VmHWM") - loaded, "seconds": seconds,
}}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "gowalla.csrr")
        fitted = in_fresh_process(FIT.format(model=MODEL, path=path))
        print(f"fitted: {fitted}")
        formats = {}
        for suffix in ("parquet", "csv", "jsonl", "arrow"):
            out = str(Path(folder) / f"recs.{suffix}")
            formats[suffix] = found = in_fresh_process(WRITE.format(path=path, out=out, k=K))
            print(
                f"{suffix}: {found['n_users']:,} users x {K}, {found['above_mb']:.0f} MB above the"
                f" {found['loaded_mb']:.0f} MB of the process with the model, {found['seconds']:.1f} s"
            )
    most = max(found["above_mb"] for found in formats.values())
    KEPT.write_text(
        json.dumps(
            {
                "data": "Gowalla, train part of the fixed split",
                "model": {"kind": "CSRR", "params": MODEL, **fitted},
                "machine": {"system": f"{platform.system()} {platform.machine()}", "cores": available_cores()},
                "k": K,
                "formats": formats,
                "reach_mb": REACH_MB,
                "reached": most < REACH_MB,
            },
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
