"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csrr import theory as theory
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
    from csrr.data.add_noise import Noisy as Noisy
    from csrr.data.add_noise import add_noise as add_noise
    from csrr.experiments import Comparison as Comparison
    from csrr.experiments import Evaluation as Evaluation
    from csrr.experiments import Range as Range
    from csrr.experiments import Tuning as Tuning
    from csrr.experiments import Walk as Walk
    from csrr.experiments import compare as compare
    from csrr.experiments import evaluate as evaluate
    from csrr.experiments import tune as tune
    from csrr.experiments.cost_curve import CostCurve as CostCurve
    from csrr.experiments.cost_curve import cost_curve as cost_curve
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
    from csrr.noise.stability import Stability as Stability
    from csrr.noise.suspects import Suspects as Suspects
    from csrr.noise.suspects import clean as clean
    from csrr.paper.robustness import robustness as robustness
    from csrr.paper.robustness_results import Robustness as Robustness
    from csrr.plots.plot import Plot as Plot
    from csrr.plots.plot import plot as plot
    from csrr.ranking import Recommendations as Recommendations
    from csrr.ranking.calibration import Calibration as Calibration
    from csrr.ranking.reliability import Reliability as Reliability

    __version__: str

# Where each public name lives; it is imported when first used, so that `csrr --version` answers at once.
_HOMES = {
    "csrr.data": "DATASETS DataError HeldOut IdMap Log UnknownIdError data_dir fetch locate read read_split split"
    " synthetic",
    "csrr.data.add_noise": "Noisy add_noise",
    "csrr.experiments": "Comparison Evaluation Range Tuning Walk compare evaluate tune",
    "csrr.experiments.cost_curve": "CostCurve cost_curve",
    "csrr.paper.robustness": "robustness",
    "csrr.paper.robustness_results": "Robustness",
    "csrr.models": "BPRMF BiasMC CSRR CSRRe EASE ItemKNN MCShift ModelFileError NotFittedError ParameterError PopRank"
    " Recommender WRMF load path",
    "csrr.noise.stability": "Stability",
    "csrr.noise.suspects": "Suspects clean",
    "csrr.ranking": "Recommendations",
    "csrr.ranking.calibration": "Calibration",
    "csrr.ranking.reliability": "Reliability",
    "csrr.plots.plot": "Plot plot",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME, "theory"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("csrr")
    if name == "theory":
        return import_module("csrr.theory")
    if name not in _HOME:
        raise AttributeError(f"module 'csrr' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
