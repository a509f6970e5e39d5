"""Noise in clicks, unusual tastes, and how stable both findings are."""
