"""Experiments: how well a model does, and how that is found out."""

from csrr.experiments.evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
