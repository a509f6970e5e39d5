"""Experiments: how well a model does, and how that is found out."""

from csrr.evaluation.compare import Comparison, compare
from csrr.evaluation.evaluate import Evaluation, evaluate
from csrr.evaluation.spaces import SPACES, Range, Walk
from csrr.evaluation.study import Trial
from csrr.evaluation.tuning import Tuning, tune

__all__ = ["SPACES", "Comparison", "Evaluation", "Range", "Trial", "Tuning", "Walk", "compare", "evaluate", "tune"]
