"""Attacks on csrr: random cases, each made from a number and judged by what csrr may never do.

`python -m fuzz` lists the campaigns; `python -m fuzz logs --seconds 60` runs one.
"""
