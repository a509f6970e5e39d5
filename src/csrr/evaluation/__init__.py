"""Experiments: how well a model does, and how that is found out."""
