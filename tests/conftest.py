import numpy as np
import pytest
from hypothesis import settings

import csrr
from csrr import registry
from csrr.ranking.metrics import HIT_METRICS

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def forget_metrics():
    """Forget the metrics that a test registers."""
    kept = dict(HIT_METRICS)
    yield
    HIT_METRICS.clear()
    HIT_METRICS.update(kept)


@pytest.fixture(autouse=True)
def forget_models(monkeypatch):
    """Forget the models that a test registers."""
    monkeypatch.setattr(registry, "_added", dict(registry._added))


@pytest.fixture(scope="session")
def ratings_folder(tmp_path_factory):
    """A folder of data sets with a made-up ml-100k, laid out as the real one: 300 users, 270 items, ratings 1 to 5."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "ml-100k").mkdir()
    log = csrr.synthetic(300, 270, rank=4, events_per_user=25, seed=3).log
    stars = np.random.default_rng(0).integers(1, 6, len(log))
    lines = [f"{u + 1}\t{i + 1}\t{r}\t0" for u, i, r in zip(log.user_rows, log.item_rows, stars, strict=True)]
    (folder / "ml-100k" / "u.data").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def ratings(ratings_folder, monkeypatch):
    """Let csrr find the made-up ml-100k."""
    from csrr_paper.reproduce import _read_file

    monkeypatch.setenv("CSRR_DATA_DIR", str(ratings_folder))
    _read_file.cache_clear()
    yield ratings_folder
    _read_file.cache_clear()
