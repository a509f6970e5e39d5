"""Clicks that look like noise, unusual tastes, and the stability of both."""
