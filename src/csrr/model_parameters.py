"""The parameters that models share, each declared once."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from csrr.parameters import Choice, Number, Parameter, Share, Whole

LEAST_COST, MOST_COST = 1e-4, 1e4
"""Between these lies what a miss may cost, in false alarms."""
MOST = 1e15
"""The largest strength: far beyond any use, and its square still within single precision."""

EVENT_WEIGHTS = ("ignore", "cost", "linear", "log")

# The problem

Loss: TypeAlias = Annotated[
    Literal["I", "II"],
    Choice(
        "loss",
        'The paper\'s loss: "I" weighs an observed cell by the cost ratio, "II" multiplies its target by it.',
        choices=("I", "II"),
    ),
]
CostRatio: TypeAlias = Annotated[
    float | None,
    Number(
        "cost_ratio",
        "What missing a choice costs, in false alarms. Left out, it is chosen, or 2.",
        least=LEAST_COST,
        most=MOST_COST,
        optional=True,
        says="cost",
    ),
]
PositiveCost: TypeAlias = Annotated[
    float | None,
    Share(
        "positive_cost",
        "The same as a share: the cost of a miss, of 1 for a miss and a false alarm together.",
        letters="c_p, with c_n = 1 - c_p",
        optional=True,
        says="cost",
    ),
]
MissCost: TypeAlias = Annotated[
    float | None,
    Number(
        "miss_cost",
        "The same in units of one's own, beside `false_alarm_cost`: what a missed choice costs.",
        above=0,
        optional=True,
        says="cost",
        beside=("false_alarm_cost",),
    ),
]
FalseAlarmCost: TypeAlias = Annotated[
    float | None,
    Number(
        "false_alarm_cost",
        "What a false alarm costs, beside `miss_cost`.",
        above=0,
        optional=True,
        says="cost",
        beside=("miss_cost",),
    ),
]
RecallWeight: TypeAlias = Annotated[
    float | None,
    Share(
        "recall_weight",
        "The same as the weight of recall against specificity, of 1 together; how rare positives are is estimated from"
        " the clicks.",
        letters="mu_p, with mu_n = 1 - mu_p",
        optional=True,
        says="cost",
    ),
]
EventWeights: TypeAlias = Annotated[
    Literal["ignore", "cost", "linear", "log"],
    Choice(
        "event_weights",
        'What the weights of the events are: "cost", factors on the cost of a miss; "linear" or "log" (of 1 + weight),'
        " confidence such as play counts, divided by their mean.",
        choices=EVENT_WEIGHTS,
    ),
]
RegLowRank: TypeAlias = Annotated[
    float | Literal["auto", "noise"],
    Number(
        "reg_low_rank",
        'Strength on the rank, as a fraction of what gives rank 0; "noise" is half the norm of the targets with random'
        " signs.",
        least=0,
        most=MOST,
        words=("auto", "noise"),
        says="strength of the low rank",
    ),
]
RegSparse: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        "reg_sparse",
        "Strength on a user's own choices V, as a fraction of what gives none; 1 or more leaves V out.",
        least=0,
        most=MOST,
        words=("auto",),
        says="strength of the own choices",
    ),
]
Neighbors: TypeAlias = Annotated[
    int | Literal["auto"],
    Whole("neighbors", "The number of items nearest to an item that speak for it; 0 for none.", words=("auto",)),
]
RegNeighbors: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        "reg_neighbors",
        "Strength on the weights of neighbors, in units of the mean diagonal of X'X.",
        least=0,
        most=MOST,
        words=("auto",),
    ),
]
NeighborScaling: TypeAlias = Annotated[
    float,
    Number(
        "neighbor_scaling",
        "The power of a user's number of clicks that these are divided by before neighbors are weighed.",
        least=0,
        most=1,
    ),
]
L1: TypeAlias = Annotated[
    float | None,
    Number(
        "l1",
        "The strength on the rank itself, in place of `reg_low_rank`.",
        above=0,
        most=MOST,
        optional=True,
        says="strength of the low rank",
    ),
]
L2: TypeAlias = Annotated[
    float | None,
    Number(
        "l2",
        "The strength on own choices itself, in place of `reg_sparse`.",
        above=0,
        most=MOST,
        optional=True,
        says="strength of the own choices",
    ),
]
UserScaling: TypeAlias = Annotated[
    float,
    Number("user_scaling", "From 0, a click of anyone counts alike, to 1, of active users less.", least=0, most=1),
]
ItemScaling: TypeAlias = Annotated[
    float,
    Number(
        "item_scaling",
        "From 0, a click on any item counts alike, to 1, on the popular it counts less.",
        least=0,
        most=1,
    ),
]
MaxRank: TypeAlias = Annotated[
    int | Literal["auto"] | None,
    Whole(
        "max_rank",
        "The largest rank, for less time and memory; None for no bound. The certificate says when it binds.",
        least=1,
        words=("auto",),
        optional=True,
    ),
]
Rank: TypeAlias = Annotated[
    int | None,
    Whole(
        "rank",
        "The number of factors; None for a default, or as many as the matrix has users or items.",
        least=1,
        optional=True,
    ),
]
Rho: TypeAlias = Annotated[
    float, Number("rho", "The share of the positive cells that was not observed.", least=0, most=0.9999)
]
AutoReg: TypeAlias = Annotated[
    float | Literal["auto"],
    Number("reg", 'Strength of the penalty; "auto" is chosen on held-out events.', above=0, most=MOST, words=("auto",)),
]

# How it is solved

Box: TypeAlias = Annotated[
    Literal["none", "paper"],
    Choice(
        "box",
        '"paper" runs the paper\'s Algorithm 1 to the letter, on dense arrays and without neighbors: for small data. It'
        " stops by its objective or `max_iter`, and `max_rank` cuts its result.",
        choices=("none", "paper"),
    ),
]
FactorSign: TypeAlias = Annotated[
    Literal["free", "nonnegative"],
    Choice(
        "factors",
        '"nonnegative" is the paper\'s form, with factors in [0, 1/sqrt(rank)] and without neighbors.',
        choices=("free", "nonnegative"),
    ),
]
StepSize: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        "step",
        'The length of a step of the paper\'s algorithm; "auto" is as long as is safe.',
        above=0,
        most=1e6,
        words=("auto",),
    ),
]
VUpdate: TypeAlias = Annotated[
    Literal["best", "step"],
    Choice(
        "v_update",
        'How non-negative factors update V after each inner loop: "best", to its minimum, or "step", by the single'
        " proximal step of the paper.",
        choices=("best", "step"),
    ),
]
Tol: TypeAlias = Annotated[
    float,
    Number("tol", "Stop at this relative gap to the optimum; of CSRRe, gain.", above=0, most=1),
]
MaxIter: TypeAlias = Annotated[int, Whole("max_iter", "Stop after this many iterations.", least=1)]
TimeLimit: TypeAlias = Annotated[
    float | None,
    Number(
        "time_limit",
        "Stop after this many seconds, half of them for choosing; one SVD and its certificate are the least.",
        above=0,
        most=MOST,
        optional=True,
    ),
]
Precision: TypeAlias = Annotated[
    Literal["float32", "float64"],
    Choice("dtype", "The precision of the numbers that are computed with.", choices=("float32", "float64")),
]
Threads: TypeAlias = Annotated[int, Whole("threads", "The number of threads; 0 for all cores.")]
Seed: TypeAlias = Annotated[int, Whole("seed", "Seed of what is random.")]

_OF_CSRR: tuple[Any, ...] = (
    *(Loss, CostRatio, PositiveCost, MissCost, FalseAlarmCost, RecallWeight, EventWeights),
    *(RegLowRank, RegSparse, Neighbors, RegNeighbors, NeighborScaling, L1, L2, UserScaling, ItemScaling),
    *(MaxRank, Box, StepSize, Tol, MaxIter, TimeLimit, Precision, Threads, Seed),
)
OPTIONS: tuple[Parameter, ...] = tuple(alias.__metadata__[0] for alias in _OF_CSRR)
"""The parameters of CSRR, which have options of their own on the command line, in the order of the help."""
