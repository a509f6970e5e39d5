"""Evaluation of models: metrics, comparisons, and searches for parameters."""
