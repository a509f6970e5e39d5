"""A search for parameters: the values that it may try, its trials, the next one, and a file that survives a kill."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from csrr._base.arrays import import_optional
from csrr._base.files import try_lock
from csrr.data.errors import DataError
from csrr.data.log import Log
from csrr.model_parameters import LOW_RANK_WALK, AroundAuto, Range, Ranks, Walk
from csrr.models.base import Recommender
from csrr.parameters import ParameterError, Whole, list_defaults, list_parameters, list_rivals
from csrr.registry import MODELS

if TYPE_CHECKING:
    import optuna

Scalar = str | int | float | bool | None


Dimension = Range | Walk | list[Scalar]
Space = dict[str, Dimension]

_DECADES = [10.0**power for power in range(-5, 3)]
_PAPER_RANKS = list(range(10, 51, 5))
_PLAIN = {
    "positive_cost": [round(0.05 * step, 2) for step in range(10, 20)],
    "l2": _DECADES,
    "user_scaling": [0.0],
    "item_scaling": [0.0],
    "neighbors": [0],
}
_SMALL = [10.0**power for power in range(-6, 1)]
_SHIFT = {"rho": [round(0.1 * step, 1) for step in range(10)], "reg_low_rank": LOW_RANK_WALK}
PAPER: dict[str, dict[str, Any]] = {
    # The step eta of Algorithm 1 has no part here: an exact solver's result does not depend on one.
    "CSRR": {**_PLAIN, "l1": Walk(tuple(_DECADES))},
    "CSRRe": {"factors": ["nonnegative"], "rank": _PAPER_RANKS, **_PLAIN, "l1": _DECADES, "step": _DECADES},
    "PopRank": {},
    "WRMF": {
        "rank": _PAPER_RANKS,
        "reg": [2.0**power for power in range(-5, 1)],
        "confidence": [1.0],
        "reg_exponent": [0.0],
    },
    # "The regularization parameters": one for all factors and one for the biases.
    "BPRMF": {
        "rank": _PAPER_RANKS,
        "learning_rate": [2.0**power for power in range(-6, 3)],
        "reg": _SMALL,
        "reg_negative": [None],
        "reg_bias": _SMALL,
    },
    # The paper names lambda and rho, and no grid; lambda is relative here.
    "MCShift": _SHIFT,
    "BiasMC": _SHIFT,
}
"""The grids of the paper's section on parameters, by model."""


def find_space(name: str, kind: type[Recommender]) -> dict[str, Any]:
    """Return a space of a model: "csrr", the model's own, or "paper", the grid of the paper."""
    if name not in ("csrr", "paper"):
        raise ParameterError.of("space", name, "choose csrr, paper, or give a dict of your own")
    found = kind.search_space if name == "csrr" else PAPER.get(kind.__name__)
    if found is None:
        raise ParameterError.of("space", name, f"has nothing for {kind.__name__}; give a dict of your own")
    return dict(found)


def resolve_space(space: str | Mapping[str, Any], model: Recommender, train: Log) -> Space:
    """Return the space of a model, checked, with numbers for all that depends on the data."""
    given = find_space(space, type(model)) if isinstance(space, str) else dict(space)
    _check_names(given, model)
    return {name: _resolve_dimension(name, each, model, train) for name, each in given.items()}


def _check_names(space: Mapping[str, Any], model: Recommender) -> None:
    kind = type(model).__name__
    known, defaults, declared = model.get_params(), list_defaults(type(model)), list_parameters(type(model))
    for name in space:
        if name not in known:
            raise ParameterError(f"space: {kind} has no parameter {name!r}; it has: {', '.join(known) or 'none'}")
        for rival in list_rivals(name, declared):
            if rival in space:
                raise ParameterError(f"space: {name} and {rival} say the same; leave one of them out")
            if rival in known and known[rival] != defaults[rival]:
                raise ParameterError(
                    f"{rival}={known[rival]!r} and {name}, which the space tunes, say the same; leave out one"
                )


def _resolve_dimension(name: str, given: Any, model: Recommender, train: Log) -> Dimension:
    if isinstance(given, AroundAuto):
        auto = model.start_value(name, train)
        return Range(auto * given.low, auto * given.high, log=True)
    if isinstance(given, Ranks):
        most = min(train.n_users, train.n_items)
        return list(dict.fromkeys(min(rank, most) for rank in given.choices))
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ParameterError.of("space", {name: given}, "must be (low, high); choices go in a list")
        given = Range(*given)
    if isinstance(given, Range):
        return _check_range(name, given, type(model))
    if isinstance(given, Walk):
        return _check_walk(name, given, model)
    if not isinstance(given, list) or not given:
        raise ParameterError.of("space", {name: given}, "must be a list of choices, (low, high), a Range or a Walk")
    choices = [each.item() if isinstance(each, np.generic) else each for each in given]
    for each in choices:
        if not isinstance(each, str | int | float | bool | None) or (isinstance(each, float) and math.isnan(each)):
            raise ParameterError.of("space", {name: each}, "must be a number, a text, True, False or None")
    return list(dict.fromkeys(choices))


def _check_range(name: str, given: Range, kind: type[Recommender]) -> Range:
    numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in (given.low, given.high))
    if not numbers or not given.low < given.high:
        raise ParameterError.of("space", {name: given}, "must go from a number to a larger one")
    if given.log and given.low <= 0:
        raise ParameterError.of("space", {name: given}, "must begin above 0, for a logarithm")
    if not is_whole(name, kind):
        return Range(float(given.low), float(given.high), given.log)
    if given.low != int(given.low) or given.high != int(given.high):
        raise ParameterError.of("space", {name: given}, "must go from a whole number to another")
    return Range(int(given.low), int(given.high), given.log)


def _check_walk(name: str, given: Walk, model: Recommender) -> Walk:
    if name not in model.walked:
        able = ", ".join(each for each, kind in MODELS.items() if kind.walked)
        raise ParameterError.of(
            "space", {name: given}, f"is a walk; only reg_low_rank and l1 of {able} can be walked along"
        )
    if not given.strengths or not np.isfinite(given.strengths).all() or given.strengths[-1] <= 0:
        raise ParameterError.of("space", {name: given}, "must have strengths, all > 0")
    return given


def is_whole(name: str, kind: type[Recommender]) -> bool:
    """Return whether a parameter takes whole numbers only."""
    declared = list_parameters(kind).get(name)
    if declared is not None:
        return isinstance(declared, Whole)
    return isinstance(list_defaults(kind)[name], int)


def find_model(model: Any) -> Recommender:
    """Return a model to tune: itself, a new one of a class, or a new one by its name, like "csrr-e"."""
    if isinstance(model, Recommender):
        return model
    if isinstance(model, type) and issubclass(model, Recommender) and not inspect.isabstract(model):
        return model()
    if isinstance(model, str) and (kind := MODELS.find(model)) is not None:
        found: Recommender = kind()
        return found
    raise ParameterError.of("model", model, f"must be a model, a class of models, or one of {', '.join(MODELS)}")


def encode_space(space: Mapping[str, Dimension]) -> dict[str, Any]:
    """Return a space as JSON has it: a list of choices, {"low", "high", "log"}, or {"walk": [...]}."""
    return {
        name: {"walk": list(each.strengths)}
        if isinstance(each, Walk)
        else vars(each)
        if isinstance(each, Range)
        else each
        for name, each in space.items()
    }


def decode_space(plain: Any) -> dict[str, Any]:
    """Return what `encode_space` was given."""
    if not isinstance(plain, dict):
        raise ParameterError.of("space", plain, 'must be an object, like {"rank": [64], "reg": {"low": 1, "high": 9}}')
    return {name: _decode_dimension(name, each) for name, each in plain.items()}


def _decode_dimension(name: str, each: Any) -> Any:
    if not isinstance(each, dict):
        return each
    if each.keys() == {"walk"} and isinstance(each["walk"], list):
        try:
            return Walk(tuple(each["walk"]))
        except (TypeError, ValueError):
            raise ParameterError.of("space", {name: each}, "must be a list of numbers") from None
    if {"low", "high"} <= each.keys() <= {"low", "high", "log"}:
        return Range(**each)
    raise ParameterError.of("space", {name: each}, "must have low and high, and perhaps log, or walk")


MOST_POINTS = 1_000_000
"""A grid of more points is searched as if it had no end."""

BEFORE_PRUNING = 5
"""Number of whole trials that others are compared with, at least."""

_NAME = "csrr"
_MARK = b'{"op_code":'
"""The beginning of every line of the record."""

Params = dict[str, Any]
State = Literal["done", "pruned", "failed"]
_STATES: dict[str, State] = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
"""How trials end, by the names of Optuna."""


@dataclass(frozen=True)
class Trial:
    """A trial of a search.

    Attributes
    ----------
    number
        Its number, from 0.
    state
        How it ended.
    value
        The score; of a pruned trial, that of its last step.
    params
        The parameters that the space has.
    seconds
        How long it took.
    reason
        Why it failed or was pruned.
    points
        How many parameters it tried: of a walk, the strengths that it came by.
    """

    number: int
    state: State
    value: float | None
    params: Params
    seconds: float
    reason: str | None = None
    points: int = 1


Grid = list[Params]
"""The points of a finite space in the order in which they are tried."""


def make_grid(space: Space, own: Mapping[str, Any] | None, seed: int) -> Grid | None:
    """Return the grid of a space, or None if that has no end, or none worth waiting for.

    The seed decides the order; `own` are parameters that were tried before, and are left out.
    """
    choices = {name: each for name, each in space.items() if isinstance(each, list)}
    n_points = math.prod(map(len, choices.values()))
    if any(isinstance(each, Range) for each in space.values()) or n_points > MOST_POINTS:
        return None
    points = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    walks = any(isinstance(each, Walk) for each in space.values())
    mine = None if own is None or walks else {name: own[name] for name in choices}
    order = np.random.default_rng(seed).permutation(len(points)).tolist()
    return [points[place] for place in order if points[place] != mine]


class Study:
    """The trials of a search so far, and the next one."""

    def __init__(self, study: optuna.Study, space: Space, grid: Grid | None, seed: int) -> None:
        self._study, self._space, self._grid, self._seed = study, space, grid, seed
        self._walks = any(isinstance(each, Walk) for each in space.values())

    def list_trials(self) -> list[Trial]:
        """Return the trials that came to an end, in their order; a trial that a kill cut short is not among them."""
        first = self._study.user_attrs.get("first")
        found = [] if first is None else [Trial(**first)]
        for each in self._list_ended():
            facts, points = each.user_attrs, len(each.intermediate_values) if self._walks else 1
            reason = facts.get("reason")
            state = _STATES[each.state.name]
            found.append(Trial(len(found), state, each.value, facts["params"], facts["seconds"], reason, points))
        return found

    def _list_ended(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials that ended; one that a kill cut short is closed as failed, without a reason."""
        done = [each for each in self._study.get_trials(deepcopy=False) if each.state.is_finished()]
        ended = [each for each in done if "seconds" in each.user_attrs]
        return [each for each in ended if each.state.name != "FAIL" or "reason" in each.user_attrs]

    def keep_first(self, trial: Trial) -> None:
        """Keep the trial of the model's own parameters, which need not lie in the space."""
        self._study.set_user_attr("first", asdict(trial))

    def propose(self) -> tuple[optuna.Trial, Params]:
        """Return a new trial and its parameters, those to walk along left out."""
        ended = self._list_ended()
        if self._grid is not None:
            tried = {each.user_attrs["place"] for each in ended}
            place = next(place for place in range(len(self._grid)) if place not in tried)
            trial = self._study.ask()
            trial.set_user_attr("place", place)
            return trial, dict(self._grid[place])
        # A draw depends on the seed and on what was found before alone, so that a search cut short goes on the same.
        self._study.sampler = _make_sampler(self._seed, len(ended))
        trial = self._study.ask(_make_distributions(self._space))
        fixed = {name: each[0] for name, each in self._space.items() if isinstance(each, list) and len(each) == 1}
        return trial, fixed | {name: _round_to_digits(value, self._space[name]) for name, value in trial.params.items()}

    def tell(self, trial: optuna.Trial, state: State, value: float | None, facts: dict[str, Any]) -> None:
        """Keep how a trial ended: its facts first, since an ended trial cannot be changed."""
        from optuna.trial import TrialState

        for name, fact in facts.items():
            trial.set_user_attr(name, fact)
        [ended] = [TrialState[name] for name, each in _STATES.items() if each == state]
        self._study.tell(trial, value if state == "done" else None, ended)


def _round_to_digits(value: Any, dimension: Any) -> Any:
    """Return a number of a range to four digits: more make no difference to a score, and are longer to write."""
    if not isinstance(value, float) or not isinstance(dimension, Range):
        return value
    return min(max(float(f"{value:.4g}"), dimension.low), dimension.high)


def _make_sampler(seed: int, number: int) -> optuna.samplers.BaseSampler:
    from optuna.samplers import TPESampler

    mixed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():  # "multivariate" is an experiment to older versions
        warnings.simplefilter("ignore")
        return TPESampler(seed=mixed, multivariate=True, warn_independent_sampling=False)


def _make_distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna import distributions

    made: dict[str, distributions.BaseDistribution] = {}
    for name, each in space.items():
        if isinstance(each, Range):
            is_whole = isinstance(each.low, int) and isinstance(each.high, int)
            kind: Any = distributions.IntDistribution if is_whole else distributions.FloatDistribution
            made[name] = kind(each.low, each.high, log=each.log)
        elif isinstance(each, list) and len(each) > 1:
            made[name] = distributions.CategoricalDistribution(each)
    return made


@contextlib.contextmanager
def open_study(
    storage: str | os.PathLike[str] | None, made_for: dict[str, Any], *, warm_up: int | None
) -> Iterator[optuna.Study]:
    """Give the study in a file, or a new one; `warm_up` is the first step at which trials are pruned, None for never.

    A file of another search, or one that another process is using, is refused. The lock is on an empty file beside it,
    `.NAME.held`, which stays.
    """
    optuna = import_optional("optuna", "tuning", "tune")
    pruner = (
        optuna.pruners.NopPruner()
        if warm_up is None
        else optuna.pruners.MedianPruner(n_startup_trials=BEFORE_PRUNING, n_warmup_steps=warm_up)
    )
    if storage is None:
        yield _create_study(None, pruner)
        return
    path = Path(storage)
    if not path.parent.is_dir():
        raise DataError(f"storage={str(storage)!r}: there is no folder {path.parent}")
    with try_lock(path.with_name(f".{path.name}.held")) as is_free:
        if not is_free:
            raise DataError(f"{path} is in use by another search; wait for it, or give another file")
        _mend(path)
        backend = optuna.storages.journal.JournalFileBackend(str(path), lock_obj=_NoLock())
        try:
            study = _create_study(optuna.storages.JournalStorage(backend), pruner)
        except json.JSONDecodeError as error:
            raise DataError(f"{path} is damaged, not only at its end ({error}); give another file") from error
        _check_same(study, json.loads(json.dumps(made_for)), path)
        for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        yield study


class _NoLock:
    """A lock for Optuna, which writes to a file that we hold already; its own would outlive a kill."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return


def _create_study(storage: Any, pruner: Any) -> Any:
    optuna = import_optional("optuna", "tuning", "tune")
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study: Any = optuna.create_study(
            storage=storage,
            study_name=_NAME,
            load_if_exists=True,
            direction="maximize",
            pruner=pruner,
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
    finally:
        optuna.logging.set_verbosity(before)
    return study


def _mend(path: Path) -> None:
    """Cut off a last line that a kill left unfinished; raise DataError if the file is not the record of a search."""
    if not path.exists() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        first = file.readline()
        # A first line is cut short only if nothing came after it.
        is_begun = not first.endswith(b"\n") and _MARK.startswith(first)
        if not (is_begun or first.startswith(_MARK)):
            raise DataError(f"{path} is not the record of a search; give the name of a new file")
        data = first + file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)


def _check_same(study: optuna.Study, made_for: dict[str, Any], path: Path) -> None:
    """Raise DataError unless the study was made for this search; a new study stores its purpose."""
    kept = study.user_attrs.get("made_for")
    if kept is None:
        study.set_user_attr("made_for", made_for)
        return
    differ = [name for name in made_for if kept.get(name) != made_for[name]]
    if differ:
        what = "; ".join(_describe_difference(name, kept.get(name), made_for[name]) for name in differ)
        raise DataError(f"{path} holds another search: {what}; give another file")


def _describe_difference(name: str, was: Any, now: Any) -> str:
    if name == "csrr":
        return f"it was made by csrr {was or 'of an unknown version'}, this is csrr {now}"
    texts = json.dumps(was), json.dumps(now)
    is_short = max(map(len, texts)) <= 80 and name != "data"
    return f"its {name} was {texts[0]}, now {texts[1]}" if is_short else f"its {name} differs"
