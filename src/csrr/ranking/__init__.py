"""Ranking: score blocks -> top-k -> lists in the caller's ids; lists -> metrics."""
