"""Experiments: how well a model does, and how that is found out."""

from csrr.experiments.compare import Comparison, compare
from csrr.experiments.evaluate import Evaluation, evaluate
from csrr.experiments.spaces import SPACES, Range, Walk
from csrr.experiments.study import Trial
from csrr.experiments.tuning import tune
from csrr.experiments.tuning_results import Tuning

__all__ = ["SPACES", "Comparison", "Evaluation", "Range", "Trial", "Tuning", "Walk", "compare", "evaluate", "tune"]
