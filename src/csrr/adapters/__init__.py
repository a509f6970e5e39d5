"""Other libraries' models in our evaluation, ours in theirs; each library is imported only where it is used."""

from csrr.adapters.scikit_learn import PerUserSplit, ranking_scorer

__all__ = ["PerUserSplit", "ranking_scorer"]
