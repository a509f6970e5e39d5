"""python -m fuzz.guided CAMPAIGN [SECONDS]: cases that libFuzzer makes of others, led by the lines that they reach.

Needs atheris (`pip install csrr[fuzz]`). What is found lies in fuzz/found, as of `python -m fuzz`; what led somewhere
new in fuzz/found/guided-CAMPAIGN, where the next run begins.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

FOUND = Path(__file__).parent / "found"
SEEDS = 200
LARGEST = 2**16


def main() -> None:
    """Run until the seconds are over; forever without any."""
    import atheris

    with atheris.instrument_imports(include=["csrr"], exclude=_list_compiled()):
        from fuzz.campaigns import CAMPAIGNS
        from fuzz.runner import draw, try_case

    name, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "0"
    campaign: Any = CAMPAIGNS[name]
    campaign.prepare()
    corpus = FOUND / f"guided-{name}"
    corpus.mkdir(parents=True, exist_ok=True)
    for number in range(SEEDS):
        _keep(corpus, name, draw(campaign, 0, number))
    # A campaign may say how to make of any bytes a case that gets past its first gate, such as a checksum.
    mend = getattr(campaign, "mend", bytes)
    kinds: set[str] = set()

    def try_bytes(data: bytes) -> None:
        case = mend(data)
        what = try_case(campaign, case)
        if what is None or (last := what.splitlines()[-1]) in kinds:
            return
        kinds.add(last)
        path = _keep(FOUND, name, case)
        path.with_suffix(".txt").write_text(what + "\n")
        print(f"{name}: {last} ({path})", flush=True)

    options = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", f"-artifact_prefix={FOUND}/{name}-", "-timeout=60"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], try_bytes)
    atheris.Fuzz()


def _list_compiled() -> list[str]:
    """The modules of csrr that numba compiles functions of: it takes no traced code."""
    package = Path(importlib.util.find_spec("csrr").origin).parent  # type: ignore[union-attr, arg-type]
    files = [file for file in package.rglob("*.py") if "njit" in file.read_text()]
    return [".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files]


def _keep(folder: Path, name: str, case: bytes) -> Path:
    path = folder / f"{name}-{hashlib.sha256(case).hexdigest()[:16]}.case"
    path.write_bytes(case)
    return path


if __name__ == "__main__":
    main()
