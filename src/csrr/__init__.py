"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csrr.data import (
        DATASETS as DATASETS,
    )
    from csrr.data import (
        DataError as DataError,
    )
    from csrr.data import (
        HeldOut as HeldOut,
    )
    from csrr.data import (
        IdMap as IdMap,
    )
    from csrr.data import (
        Log as Log,
    )
    from csrr.data import (
        UnknownIdError as UnknownIdError,
    )
    from csrr.data import (
        data_dir as data_dir,
    )
    from csrr.data import (
        fetch as fetch,
    )
    from csrr.data import (
        locate as locate,
    )
    from csrr.data import (
        read as read,
    )
    from csrr.data import (
        read_split as read_split,
    )
    from csrr.data import (
        split as split,
    )
    from csrr.data import (
        synthetic as synthetic,
    )
    from csrr.experiments import Comparison as Comparison
    from csrr.experiments import Evaluation as Evaluation
    from csrr.experiments import Range as Range
    from csrr.experiments import Tuning as Tuning
    from csrr.experiments import Walk as Walk
    from csrr.experiments import compare as compare
    from csrr.experiments import evaluate as evaluate
    from csrr.experiments import tune as tune
    from csrr.models import (
        BPRMF as BPRMF,
    )
    from csrr.models import (
        CSRR as CSRR,
    )
    from csrr.models import (
        EASE as EASE,
    )
    from csrr.models import (
        WRMF as WRMF,
    )
    from csrr.models import (
        BiasMC as BiasMC,
    )
    from csrr.models import (
        CSRRe as CSRRe,
    )
    from csrr.models import (
        ItemKNN as ItemKNN,
    )
    from csrr.models import (
        MCShift as MCShift,
    )
    from csrr.models import (
        ModelFileError as ModelFileError,
    )
    from csrr.models import (
        NotFittedError as NotFittedError,
    )
    from csrr.models import (
        ParameterError as ParameterError,
    )
    from csrr.models import (
        PopRank as PopRank,
    )
    from csrr.models import (
        Recommender as Recommender,
    )
    from csrr.models import (
        load as load,
    )
    from csrr.models import (
        path as path,
    )
    from csrr.ranking import Recommendations as Recommendations

    __version__: str

# Where each public name lives; it is imported when first used, so that `csrr --version` answers at once.
_HOMES = {
    "csrr.data": "DATASETS DataError HeldOut IdMap Log UnknownIdError data_dir fetch locate read read_split split"
    " synthetic",
    "csrr.experiments": "Comparison Evaluation Range Tuning Walk compare evaluate tune",
    "csrr.models": "BPRMF BiasMC CSRR CSRRe EASE ItemKNN MCShift ModelFileError NotFittedError ParameterError PopRank"
    " Recommender WRMF load path",
    "csrr.ranking": "Recommendations",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("csrr")
    if name not in _HOME:
        raise AttributeError(f"module 'csrr' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
