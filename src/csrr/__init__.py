"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""

from importlib import import_module

from csrr.registry import HOMES as _MODELS

# Not from typing, whose import takes longer than all the rest of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from csrr import adapters as adapters
    from csrr.adapters.export_vectors import Export as Export
    from csrr.adapters.export_vectors import export as export
    from csrr.data import DATASETS as DATASETS
    from csrr.data import DataError as DataError
    from csrr.data import DataWarning as DataWarning
    from csrr.data import EventTypes as EventTypes
    from csrr.data import HeldOut as HeldOut
    from csrr.data import IdMap as IdMap
    from csrr.data import ItemTable as ItemTable
    from csrr.data import Log as Log
    from csrr.data import LogColumns as LogColumns
    from csrr.data import NoHistoryWarning as NoHistoryWarning
    from csrr.data import UnknownIdError as UnknownIdError
    from csrr.data import UnknownIdWarning as UnknownIdWarning
    from csrr.data import data_dir as data_dir
    from csrr.data import fetch as fetch
    from csrr.data import locate as locate
    from csrr.data import read as read
    from csrr.data import read_items as read_items
    from csrr.data import read_split as read_split
    from csrr.data import read_sql as read_sql
    from csrr.data import split as split
    from csrr.data import synthetic as synthetic
    from csrr.data.add_noise import Noisy as Noisy
    from csrr.data.add_noise import add_noise as add_noise
    from csrr.experiments.compare import Comparison as Comparison
    from csrr.experiments.compare import compare as compare
    from csrr.experiments.cost_curve import CostCurve as CostCurve
    from csrr.experiments.cost_curve import cost_curve as cost_curve
    from csrr.experiments.evaluate import Evaluation as Evaluation
    from csrr.experiments.evaluate import evaluate as evaluate
    from csrr.experiments.spaces import Range as Range
    from csrr.experiments.spaces import Walk as Walk
    from csrr.experiments.tabulate import EvaluationTable as EvaluationTable
    from csrr.experiments.tabulate import tabulate as tabulate
    from csrr.experiments.tuning import tune as tune
    from csrr.experiments.tuning_results import Tuning as Tuning
    from csrr.first_look.result import FirstLook as FirstLook
    from csrr.first_look.start import start as start
    from csrr.models.bprmf import BPRMF as BPRMF
    from csrr.models.csrr import CSRR as CSRR
    from csrr.models.csrre import CSRRe as CSRRe
    from csrr.models.ease import EASE as EASE
    from csrr.models.itemknn import ItemKNN as ItemKNN
    from csrr.models.kept import ModelFileError as ModelFileError
    from csrr.models.load import load as load
    from csrr.models.popularity import PopRank as PopRank
    from csrr.models.positive_unlabelled import BiasMC as BiasMC
    from csrr.models.positive_unlabelled import MCShift as MCShift
    from csrr.models.recommender import NotFittedError as NotFittedError
    from csrr.models.recommender import Recommender as Recommender
    from csrr.models.regularization_path import path as path
    from csrr.models.wrmf import WRMF as WRMF
    from csrr.noise.cleaning import Cleaning as Cleaning
    from csrr.noise.cleaning import clean as clean
    from csrr.noise.cleaning import plan_cleaning as plan_cleaning
    from csrr.noise.stability import Stability as Stability
    from csrr.noise.suspects import Suspects as Suspects
    from csrr.parameters import ParameterError as ParameterError
    from csrr.plots.plot import Plot as Plot
    from csrr.plots.plot import plot as plot
    from csrr.plots.plot_series import plot_lines as plot_lines
    from csrr.plots.plot_series import plot_points as plot_points
    from csrr.ranking.calibration import Calibration as Calibration
    from csrr.ranking.metrics import register_metric as register_metric
    from csrr.ranking.recommendations import Recommendations as Recommendations
    from csrr.ranking.reliability import Reliability as Reliability
    from csrr.registry import register as register

    __version__: str

# Where each public name lives; it is imported when first used, so that `csrr --version` answers at once.
_HOMES = {
    "csrr.adapters.export_vectors": "Export export",
    "csrr.data": "DATASETS DataError DataWarning EventTypes HeldOut IdMap ItemTable Log LogColumns NoHistoryWarning"
    " UnknownIdError UnknownIdWarning data_dir fetch locate read read_items read_split read_sql split synthetic",
    "csrr.data.add_noise": "Noisy add_noise",
    "csrr.experiments.compare": "Comparison compare",
    "csrr.experiments.evaluate": "Evaluation evaluate",
    "csrr.experiments.spaces": "Range Walk",
    "csrr.experiments.tabulate": "EvaluationTable tabulate",
    "csrr.experiments.tuning": "tune",
    "csrr.experiments.tuning_results": "Tuning",
    "csrr.experiments.cost_curve": "CostCurve cost_curve",
    "csrr.first_look.result": "FirstLook",
    "csrr.first_look.start": "start",
    "csrr.models.load": "load",
    "csrr.models.recommender": "NotFittedError Recommender",
    "csrr.models.regularization_path": "path",
    "csrr.models.kept": "ModelFileError",
    "csrr.noise.cleaning": "Cleaning clean plan_cleaning",
    "csrr.noise.stability": "Stability",
    "csrr.noise.suspects": "Suspects",
    "csrr.parameters": "ParameterError",
    "csrr.plots.plot": "Plot plot",
    "csrr.plots.plot_series": "plot_lines plot_points",
    "csrr.ranking.metrics": "register_metric",
    "csrr.ranking.recommendations": "Recommendations",
    "csrr.ranking.calibration": "Calibration",
    "csrr.ranking.reliability": "Reliability",
    "csrr.registry": "register",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()} | _MODELS

__all__ = sorted([*_HOME, "adapters"])


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version

        return version("csrr")
    if name == "adapters":
        return import_module("csrr.adapters")
    if name not in _HOME:
        raise AttributeError(f"module 'csrr' has no attribute {name!r}")
    from csrr.parameters import explain_names

    value = globals()[name] = explain_names(getattr(import_module(_HOME[name]), name))
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
