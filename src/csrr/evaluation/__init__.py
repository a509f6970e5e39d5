"""Experiments: how well a model does, and how that is found out."""

from csrr.evaluation.compare import Comparison, compare
from csrr.evaluation.evaluate import Evaluation, evaluate
from csrr.evaluation.study import Trial
from csrr.evaluation.tuning import Tuning, tune
from csrr.models.search_space import Range, Walk

__all__ = ["Comparison", "Evaluation", "Range", "Trial", "Tuning", "Walk", "compare", "evaluate", "tune"]
