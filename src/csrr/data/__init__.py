"""Data: readers -> a log, checked once -> split -> matrix."""
