"""The parameters that models share, each declared once, under its name in CamelCase; and values that a search tries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from csrr.parameters import Choice, Duration, Number, Numbers, Parameter, Service, Whole, read_declaration

LEAST_COST, MOST_COST = 1e-4, 1e4
"""The range of the cost of a miss, relative to that of a false alarm."""
MOST_HORIZON = 0.99
"""The farthest horizon."""
MOST = 1e15
"""The largest strength: far beyond any use, and its square still within single precision."""

# The problem

Loss: TypeAlias = Annotated[
    Literal["I", "II"],
    Choice('The paper\'s loss: "I" weights observed cells by the cost ratio, "II" multiplies their target by it.'),
]
CostRatio: TypeAlias = Annotated[
    float | None,
    Number(
        "The weight of clicks: in the paper, the cost of a miss divided by the cost of a false alarm. None: chosen on"
        " held-out events, or 2.",
        least=LEAST_COST,
        most=MOST_COST,
        quantity="cost",
        given_with=("miss_cost", "false_alarm_cost"),
    ),
]
PositiveCost: TypeAlias = Annotated[
    float | None,
    Number(
        "The same as a share: the cost of a miss, if a miss and a false alarm together cost 1.",
        above=0,
        below=1,
        quantity="cost",
    ),
]
MissCost: TypeAlias = Annotated[
    float | None,
    Number(
        "The cost of a miss in your own units, for decisions; needs `false_alarm_cost`.",
        above=0,
        quantity="cost",
        given_with=("false_alarm_cost", "cost_ratio"),
    ),
]
FalseAlarmCost: TypeAlias = Annotated[
    float | None,
    Number(
        "The cost of a false alarm in the same units; needs `miss_cost`.",
        above=0,
        quantity="cost",
        given_with=("miss_cost", "cost_ratio"),
    ),
]
RecallWeight: TypeAlias = Annotated[
    float | None,
    Number(
        "The same as the weight of recall, that of specificity being 1 minus it; the share of positives is estimated"
        " from the clicks.",
        above=0,
        below=1,
        quantity="cost",
    ),
]
EventWeights: TypeAlias = Annotated[
    Literal["auto", "ignore", "cost", "linear", "log"],
    Choice(
        'How event weights are used: "ignore"; "cost", as factors on the cost of a miss; "linear" or "log" (of'
        ' 1 + weight), as confidence, such as play counts, divided by their mean; "auto": "linear" where they are given'
        ' by event type, else "ignore".'
    ),
]
HalfLife: TypeAlias = Annotated[
    float | str | timedelta | None,
    Duration(
        'The age at which an event counts half, relative to the latest event: in days, or like "90d"; None: no decay.'
    ),
]
RegLowRank: TypeAlias = Annotated[
    float | Literal["auto", "noise"],
    Number(
        'Nuclear-norm regularization, as a fraction of the value that gives rank 0; "noise": half the norm of the'
        " targets with random signs.",
        least=0,
        most=MOST,
        quantity="regularization of the rank",
    ),
]
RegSparse: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        "Regularization of the user-specific choices V, as a fraction of the value that gives V = 0; 1 or more: no V.",
        least=0,
        most=MOST,
        quantity="regularization of V",
    ),
]
Neighbors: TypeAlias = Annotated[
    int | Literal["auto"], Whole("The number of nearest items whose weights add to an item's score; 0: none.")
]
RegNeighbors: TypeAlias = Annotated[
    float | Literal["auto"],
    Number("Ridge penalty on the weights of neighbors, in units of the mean diagonal of X'X.", least=0, most=MOST),
]
NeighborScaling: TypeAlias = Annotated[
    float,
    Number("Before neighbors are fitted, a user's clicks are divided by this power of their number.", least=0, most=1),
]
Denoise: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        "How much less events count that a first fit takes for noise: by this power of their probability of being"
        " genuine; 0: not at all.",
        least=0,
        most=1,
    ),
]
L1: TypeAlias = Annotated[
    float | None,
    Number(
        "The nuclear-norm regularization as an absolute value, in place of `reg_low_rank`.",
        above=0,
        most=MOST,
        quantity="regularization of the rank",
    ),
]
L2: TypeAlias = Annotated[
    float | None,
    Number(
        "The regularization of V as an absolute value, in place of `reg_sparse`.",
        above=0,
        most=MOST,
        quantity="regularization of V",
    ),
]
UserScaling: TypeAlias = Annotated[
    float, Number("How much clicks of active users are scaled down, from 0 (not at all) to 1.", least=0, most=1)
]
ItemScaling: TypeAlias = Annotated[
    float, Number("How much clicks on popular items are scaled down, from 0 (not at all) to 1.", least=0, most=1)
]
MaxRank: TypeAlias = Annotated[
    int | Literal["auto"] | None,
    Whole(
        "Upper bound on the rank, to save time and memory; None: no bound. The certificate says if it binds.", least=1
    ),
]
Rank: TypeAlias = Annotated[
    int | None, Whole("The number of factors; None: a default, or fewer if there are fewer users or items.", least=1)
]
Rho: TypeAlias = Annotated[
    float, Number("The share of the positive cells that were not observed.", least=0, most=0.9999)
]
AutoReg: TypeAlias = Annotated[
    float | Literal["auto"], Number('Regularization strength; "auto": chosen on held-out events.', above=0, most=MOST)
]

# Order

Order: TypeAlias = Annotated[
    Literal["ignore", "next", "recent", "auto"],
    Choice(
        'What the order of events is for: "next" predicts what comes next from recent histories; "recent" only lets'
        ' recent events count more; "auto": what ranks each user\'s last training event best; "ignore": nothing.'
    ),
]
Decay: TypeAlias = Annotated[
    float | tuple[float, ...] | list[float] | Literal["auto"],
    Numbers(
        "With `order`: the factor by which an event counts less for each later one of the user, between 0 and 1; or up"
        " to three such factors, each with neighbors of its own.",
        above=0,
        below=1,
        count=3,
    ),
]
Horizon: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        'With order "next": how far ahead it looks. 0: at the next event alone; else by what factor each later one'
        ' counts less. "auto": 0, or chosen where several events of a user are held out (`hold_out`).',
        least=0,
        most=MOST_HORIZON,
    ),
]
HistoryScaling: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        'With order "next": before neighbors are fitted, events are divided by this power of the number of events of'
        " their item.",
        least=0,
        most=1,
    ),
]
RareScaling: TypeAlias = Annotated[
    float | Literal["auto"],
    Number(
        'With order "next": the power of its number of events by which the score of an item is divided.',
        least=0,
        most=1,
    ),
]

HoldOut: TypeAlias = Annotated[
    Literal["auto", "random", "last", "time"],
    Choice(
        'Which tenth of the events "auto" parameters are chosen on: "random" or "last" of each user\'s, or the last of'
        ' all in "time"; "auto": as the log\'s own test was held out (`csrr.split`), else at random.'
        " With `order` it is a fifth, or each user's last event if nothing else is said."
    ),
]

# How it is solved

Box: TypeAlias = Annotated[
    Literal["none", "paper"],
    Choice(
        '"paper" runs the paper\'s Algorithm 1 as printed, on dense arrays and without neighbors: for small data. It'
        " stops by its objective or `max_iter`, and `max_rank` truncates its result."
    ),
]
Factors: TypeAlias = Annotated[
    Literal["free", "nonnegative"],
    Choice('"free", or "nonnegative": the paper\'s form, with factors in [0, 1/sqrt(rank)] and without neighbors.'),
]
Step: TypeAlias = Annotated[
    float | Literal["auto"],
    Number('The step size of the paper\'s algorithm; "auto": as long as is safe.', above=0, most=1e6),
]
VUpdate: TypeAlias = Annotated[
    Literal["best", "step"],
    Choice(
        'How nonnegative factors update V after each inner loop: "best", to its minimum, or "step", by the paper\'s'
        " single proximal step."
    ),
]
Tol: TypeAlias = Annotated[
    float, Number("Stop at this relative gap to the optimum; in CSRRe, at this relative gain.", above=0, most=1)
]
MaxIter: TypeAlias = Annotated[int, Whole("Stop after this many iterations.", least=1)]
TimeLimit: TypeAlias = Annotated[
    float | None,
    Number(
        "Stop after this many seconds, half of them for the search; at least one SVD and its certificate are computed.",
        above=0,
        most=MOST,
    ),
]
Dtype: TypeAlias = Annotated[Literal["float32", "float64"], Choice("The floating-point precision of the computation.")]
Threads: TypeAlias = Annotated[int, Whole("The number of threads; 0 for all cores.")]
Engine: TypeAlias = Annotated[
    Any | Literal["auto", "threads", "cuda", "dask"],
    Service(
        'Where the work runs: on threads of this process, which is what "auto" is, on a GPU ("cuda"), with workers of'
        ' Dask ("dask"), or where an object with the methods of `csrr.numerics.engine.Engine` has it. Results differ by'
        " rounding; no file keeps it.",
        methods=("put", "put_cells", "get"),
    ),
]
Seed: TypeAlias = Annotated[int, Whole("Seed of the random numbers.")]

_OF_CSRR = (
    "loss cost_ratio positive_cost miss_cost false_alarm_cost recall_weight event_weights half_life reg_low_rank"
    " reg_sparse neighbors reg_neighbors neighbor_scaling order decay horizon history_scaling rare_scaling denoise l1"
    " l2 user_scaling item_scaling max_rank hold_out box step tol max_iter time_limit dtype threads engine seed"
)
OPTIONS: tuple[Parameter, ...] = tuple(
    read_declaration(globals()[name.title().replace("_", "")], name) for name in _OF_CSRR.split()
)
"""The parameters of CSRR, which have options of their own on the command line, in the order of the help."""

# The values that a search tries, as a model declares them in `search_space`


@dataclass(frozen=True)
class Range:
    """A search range for `csrr.tune`: numbers between two bounds, integers for an integer parameter.

    Attributes
    ----------
    low, high
        The bounds.
    log
        Whether to sample on a log scale.

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=10).log
    >>> found = csrr.tune("ease", log, space={"reg": csrr.Range(1, 500, log=True)}, trials=3)
    >>> all(1 <= trial.params["reg"] <= 500 for trial in found.trials[1:])
    True
    """

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class AroundAuto:
    """Any number from `low` to `high` times what "auto" comes to on the training data, by its logarithm."""

    low: float
    high: float


@dataclass(frozen=True)
class Ranks:
    """Choices of a rank; those beyond the matrix give way to the largest there is."""

    choices: tuple[int, ...]


@dataclass(frozen=True)
class Walk:
    """A regularization path as one trial of `csrr.tune`: from strong to weak, with warm starts.

    Attributes
    ----------
    strengths
        The regularization strengths; sorted in decreasing order.

    Examples
    --------
    >>> csrr.Walk((0.1, 0.5, 0.2)).strengths
    (0.5, 0.2, 0.1)
    """

    strengths: tuple[float, ...]

    def __post_init__(self) -> None:
        """Sort the strengths, falling."""
        object.__setattr__(self, "strengths", tuple(sorted({float(each) for each in self.strengths}, reverse=True)))


LOW_RANK_WALK = Walk(tuple(float(f"{0.8 * 0.05 ** (step / 13):.3g}") for step in range(14)))
"""The fractions of the strength that gives rank 0 which models with a nuclear norm are tried at."""
USUAL_RANKS = Ranks((32, 64, 128, 256))
