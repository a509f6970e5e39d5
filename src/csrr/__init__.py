"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""

from importlib import import_module

from csrr.registry import HOMES as _MODELS

# Not from typing, whose import takes longer than all the rest of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from csrr import interop as interop
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
    from csrr.data.synthetic import Noisy as Noisy
    from csrr.data.synthetic import add_noise as add_noise
    from csrr.evaluation.compare import Comparison as Comparison
    from csrr.evaluation.compare import EvaluationTable as EvaluationTable
    from csrr.evaluation.compare import compare as compare
    from csrr.evaluation.compare import tabulate as tabulate
    from csrr.evaluation.cost_curve import CostCurve as CostCurve
    from csrr.evaluation.cost_curve import cost_curve as cost_curve
    from csrr.evaluation.evaluate import Evaluation as Evaluation
    from csrr.evaluation.evaluate import evaluate as evaluate
    from csrr.evaluation.spaces import Range as Range
    from csrr.evaluation.spaces import Walk as Walk
    from csrr.evaluation.tuning import Tuning as Tuning
    from csrr.evaluation.tuning import tune as tune
    from csrr.interop.vectors import Export as Export
    from csrr.interop.vectors import export as export
    from csrr.models.base import NotFittedError as NotFittedError
    from csrr.models.base import Recommender as Recommender
    from csrr.models.bprmf import BPRMF as BPRMF
    from csrr.models.csrr import CSRR as CSRR
    from csrr.models.csrre import CSRRe as CSRRe
    from csrr.models.ease import EASE as EASE
    from csrr.models.itemknn import ItemKNN as ItemKNN
    from csrr.models.mcshift import BiasMC as BiasMC
    from csrr.models.mcshift import MCShift as MCShift
    from csrr.models.path import path as path
    from csrr.models.popularity import PopRank as PopRank
    from csrr.models.schema import ModelFileError as ModelFileError
    from csrr.models.store import load as load
    from csrr.models.wrmf import WRMF as WRMF
    from csrr.noise.cleaning import Cleaning as Cleaning
    from csrr.noise.cleaning import clean as clean
    from csrr.noise.cleaning import plan_cleaning as plan_cleaning
    from csrr.noise.stability import Stability as Stability
    from csrr.noise.suspects import Suspects as Suspects
    from csrr.parameters import ParameterError as ParameterError
    from csrr.ranking.calibration import Calibration as Calibration
    from csrr.ranking.calibration import Reliability as Reliability
    from csrr.ranking.metrics import register_metric as register_metric
    from csrr.registry import register as register
    from csrr.report.charts import Plot as Plot
    from csrr.report.charts import plot as plot
    from csrr.report.charts import plot_lines as plot_lines
    from csrr.report.charts import plot_points as plot_points
    from csrr.report.findings import FirstLook as FirstLook
    from csrr.report.start import start as start
    from csrr.results.recommendations import Recommendations as Recommendations

    __version__: str

# Where each public name lives; it is imported when first used, so that `csrr --version` answers at once.
_HOMES = {
    "csrr.data": "DATASETS DataError DataWarning EventTypes HeldOut IdMap ItemTable Log LogColumns"
    " NoHistoryWarning UnknownIdError UnknownIdWarning data_dir fetch locate read"
    " read_items read_split read_sql split synthetic",
    "csrr.data.synthetic": "Noisy add_noise",
    "csrr.evaluation.compare": "Comparison EvaluationTable compare tabulate",
    "csrr.evaluation.cost_curve": "CostCurve cost_curve",
    "csrr.evaluation.evaluate": "Evaluation evaluate",
    "csrr.evaluation.spaces": "Range Walk",
    "csrr.evaluation.tuning": "Tuning tune",
    "csrr.interop.vectors": "Export export",
    "csrr.models.base": "NotFittedError Recommender",
    "csrr.models.path": "path",
    "csrr.models.schema": "ModelFileError",
    "csrr.models.store": "load",
    "csrr.noise.cleaning": "Cleaning clean plan_cleaning",
    "csrr.noise.stability": "Stability",
    "csrr.noise.suspects": "Suspects",
    "csrr.parameters": "ParameterError",
    "csrr.ranking.calibration": "Calibration Reliability",
    "csrr.ranking.metrics": "register_metric",
    "csrr.registry": "register",
    "csrr.report.charts": "Plot plot plot_lines plot_points",
    "csrr.report.findings": "FirstLook",
    "csrr.report.start": "start",
    "csrr.results.recommendations": "Recommendations",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()} | _MODELS

__all__ = sorted([*_HOME, "interop"])


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version

        return version("csrr")
    if name == "interop":
        return import_module("csrr.interop")
    if name not in _HOME:
        raise AttributeError(f"module 'csrr' has no attribute {name!r}")
    from csrr.parameters import explain_names

    value = globals()[name] = explain_names(getattr(import_module(_HOME[name]), name))
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
