"""The printed numbers of the paper, with its data sets, protocols and columns. Copied, not computed."""

from __future__ import annotations

from dataclasses import dataclass

PRINTED_SYSTEMS = ("PopRank", "BPRMF", "WRMF", "MC-Shift", "CSRR-e", "CSRR-II", "CSRR-I")
LENGTHS = (5, 10, 15)
COLUMNS = ("R@5", "R@10", "P@5", "P@10", "F@5", "F@10", "F@15", "NDCG@5", "NDCG@10", "NDCG@15")
ABLATION_COLUMNS = ("F@5", "F@15", "NDCG@5", "NDCG@15")
WITHOUT_V = "CSRR-I, V = 0, tuned on its own"


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper: its name in csrr, its label, and the ratings that mean "more than 3"."""

    name: str
    label: str
    at_least: dict[str, float | None]
    note: str = ""


@dataclass(frozen=True)
class Protocol:
    """Which ratings are positive and how NDCG is normalized (`ndcg`, a metric of `csrr.evaluate`)."""

    name: str
    ndcg: str
    about: str


DATA: dict[str, DataSet] = {
    each.name: each
    for each in (
        DataSet("ml-100k", "MovieLens-100K", {"numbers": 3, "text": 4, "all-ratings": None}),
        DataSet("ml-1m", "MovieLens-1M", {"numbers": 3, "text": 4, "all-ratings": None}),
        DataSet(
            "eachmovie",
            "EachMovie, heavy raters",
            {"numbers": 4, "text": 5, "all-ratings": None},
            "The paper used all of EachMovie (61,265 users), which was withdrawn in 2004. This part of it has the users"
            " with more than 120 votes, so the printed numbers, for all users, are not comparable. Scores run from 1 to"
            " 6 for 0 to 5 stars: 3 stars are a score of 4.",
        ),
    )
}

PRINTED_FOR_OTHER_USERS = frozenset({"eachmovie"})
"""Data sets of which we have only a part: the printed numbers are for more users, so they cannot be compared."""

PROTOCOLS: dict[str, Protocol] = {
    each.name: each
    for each in (
        Protocol(
            "numbers",
            "list_ndcg",
            "Ratings of 3 and more are positive. NDCG is normalized by the hits in the list (0 without hits). F is the"
            " harmonic mean of average precision and average recall. The printed numbers fit this protocol.",
        ),
        Protocol(
            "text",
            "ndcg",
            "Ratings above 3 are positive, as the paper's text says. NDCG is the standard one, normalized by the best"
            " possible list. F is the harmonic mean of average precision and average recall.",
        ),
        Protocol(
            "all-ratings",
            "list_ndcg",
            "Every rating is positive; otherwise as “numbers”. It is there because the printed MovieLens-100K rows of"
            " MC-Shift and CSRR have a high precision for their recall.",
        ),
    )
}

_PRINTED = {
    "ml-100k": """
        PopRank  .0634 .1192 .1661 .1569 .0918 .1355 .1524 .3935 .4387 .4507
        BPRMF    .1466 .2325 .3597 .2965 .2083 .2606 .2793 .6297 .6463 .6463
        WRMF     .1546 .2411 .3640 .3008 .2170 .2677 .2776 .6525 .6607 .6598
        MC-Shift .1301 .2111 .4522 .3866 .2021 .2731 .3035 .7097 .7146 .7133
        CSRR-e   .1311 .2026 .4487 .3700 .2030 .2618 .2908 .7093 .7061 .7317
        CSRR-II  .1401 .2171 .4716 .3927 .2160 .2796 .3100 .7372 .7380 .7308
        CSRR-I   .1409 .2173 .4736 .3943 .2172 .2802 .3114 .7382 .7390 .7323""",
    "ml-1m": """
        PopRank  .0421 .0713 .1879 .1647 .0688 .0995 .1189 .3763 .4084 .4241
        BPRMF    .0949 .1575 .3590 .3106 .1501 .2090 .2364 .6044 .6221 .6247
        WRMF     .1083 .1759 .3770 .3236 .1683 .2279 .2535 .6370 .6532 .6523
        MC-Shift .1119 .1774 .3941 .3341 .1743 .2317 .2564 .6525 .6650 .6641
        CSRR-e   .1139 .1808 .3978 .3381 .1771 .2356 .2661 .6579 .6697 .6680
        CSRR-II  .1161 .1861 .3954 .3378 .1795 .2400 .2663 .6553 .6683 .6681
        CSRR-I   .1165 .1850 .4007 .3400 .1805 .2400 .2700 .6591 .6711 .6716""",
    "eachmovie": """
        PopRank  .178  .265  .1751 .1433 .1765 .1860 .1861 .3949 .4241 .4371
        BPRMF    .3251 .4734 .3028 .2462 .3135 .3239 .3067 .6056 .6245 .6311
        WRMF     .3331 .4703 .3025 .2424 .3175 .3199 .2998 .6085 .6248 .6316
        MC-Shift .3213 .4562 .3056 .2362 .3133 .3112 .2732 .5985 .6081 .6086
        CSRR-e   .3334 .4620 .3177 .2462 .3254 .3212 .2949 .6108 .6248 .6218""",
}

_PRINTED_ABLATION = {
    "ml-100k": {WITHOUT_V: (0.2131, 0.3010, 0.7304, 0.7193), "CSRR-I": (0.2172, 0.3114, 0.7382, 0.7323)},
    "ml-1m": {WITHOUT_V: (0.1726, 0.2607, 0.6363, 0.6524), "CSRR-I": (0.1805, 0.2700, 0.6591, 0.6716)},
}


def _read_rows(text: str) -> dict[str, dict[str, float]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return {name: dict(zip(COLUMNS, map(float, values), strict=True)) for name, *values in lines}


PRINTED: dict[str, dict[str, dict[str, float]]] = {data: _read_rows(text) for data, text in _PRINTED.items()}
"""The main table, by data, system and column."""

PRINTED_ABLATION: dict[str, dict[str, dict[str, float]]] = {
    data: {name: dict(zip(ABLATION_COLUMNS, values, strict=True)) for name, values in rows.items()}
    for data, rows in _PRINTED_ABLATION.items()
}
"""The table on V, by data, system and column."""


def name_metric(column: str, protocol: Protocol) -> str:
    """Return the name in `csrr.evaluate` of a column of the paper."""
    name, k = column.split("@")
    return f"{ {'R': 'recall', 'P': 'precision', 'F': 'f1_of_means', 'NDCG': protocol.ndcg}[name] }@{k}"
