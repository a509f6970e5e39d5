"""A log or a fitted model -> which clicks, users and items are suspect; and the log without the worst."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.arrays import FloatArray
from csrr.data import Log
from csrr.noise.judged import STRONG, Judged
from csrr.noise.noise_scores import check_popularity, score_noise
from csrr.noise.stability import Stability
from csrr.parameters import ParameterError, check_number
from csrr.ranking.result_table import SHOWN, ResultTable
from csrr.registry import MODELS


@dataclass(frozen=True, eq=False, repr=False)
class Suspects:
    """How probable it is that each event of a log is noise: a click that nobody meant.

    The scores are local false discovery rates. They hold if noise falls evenly over the items (or, with a `popularity`,
    as that says) and if all other clicks tell what a user likes. So an attack by many accounts that act alike passes as
    taste, and the first click of a new interest looks like noise. Where tastes are diffuse the scores are too high, and
    so is `noise_share`: on planted data by up to a tenth.

    Attributes
    ----------
    log
        The events.
    scores
        These probabilities, shape (n_events,), in the order of the log (by user row, then item row).
    unexplained
        The share of each click that the model's common taste leaves over, shape (n_events,).
    stability
        How much of this small changes leave, where asked for; or None.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> found = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0).fit(log).suspects()
    >>> len(found) == len(log), list(found.events.columns)
    (True, ['user', 'item', 'title', 'score', 'unexplained'])
    """

    log: Log
    scores: FloatArray
    unexplained: FloatArray
    stability: Stability | None = None

    @property
    def noise_share(self) -> float:
        """The estimated share of noise among all events: the mean score."""
        return float(self.scores.mean())

    def __len__(self) -> int:
        return len(self.scores)

    def above(self, score: float) -> npt.NDArray[np.bool_]:
        """Return which events have a larger score.

        Parameters
        ----------
        score
            The score.

        Returns
        -------
        mask
            Shape (n_events,).
        """
        mask: npt.NDArray[np.bool_] = self.scores > score
        return mask

    @cached_property
    def events(self) -> ResultTable:
        """The events, most suspect first: user, item, title (where known), score, unexplained."""
        log, order = self.log, np.lexsort((-self.unexplained, -self.scores))
        columns = {"user": log.users.ids[log.user_rows[order]]} | self._name_items(log.item_rows[order])
        return ResultTable(columns | {"score": self.scores[order], "unexplained": self.unexplained[order]})

    @cached_property
    def users(self) -> ResultTable:
        """The users with events, most suspect first: user, clicks, noise (the share of these that is noise)."""
        order, clicks, noise = self._group_by(self.log.user_rows, self.log.n_users)
        return ResultTable({"user": self.log.users.ids[order], "clicks": clicks, "noise": noise})

    @cached_property
    def items(self) -> ResultTable:
        """The items with events, most suspect first: item, title (where known), clicks, noise (as for users)."""
        order, clicks, noise = self._group_by(self.log.item_rows, self.log.n_items)
        return ResultTable(self._name_items(order) | {"clicks": clicks, "noise": noise})

    def _name_items(self, item_rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        columns = {"item": self.log.items.ids[item_rows]}
        return columns if self.log.titles is None else columns | {"title": self.log.titles[item_rows]}

    def _group_by(self, rows: npt.NDArray[Any], n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], FloatArray]:
        """Return the rows with events, most suspect first, their numbers of events and mean scores."""
        clicks = np.bincount(rows, minlength=n)
        noise = np.bincount(rows, self.scores, minlength=n) / np.maximum(clicks, 1)
        order = np.lexsort((-clicks, -noise))
        order = order[clicks[order] > 0]
        return order, clicks[order], noise[order]

    def __str__(self) -> str:
        return (
            f"{self.noise_share:.1%} of {len(self):,} events are noise, as far as the others tell. A score is the"
            " probability that an event is noise, if noise falls on items regardless of taste.\n"
            f"{self.events.head(SHOWN)}" + (f"\n{self.stability}" if self.stability is not None else "")
        )

    def __repr__(self) -> str:
        return f"Suspects: {len(self):,} events, {self.noise_share:.1%} of them noise by estimate"


def find_suspects(model: Judged, *, popularity: float = 0.0, steady: Stability | None = None) -> Suspects:
    """Return how suspect the clicks of a fitted model are, by the model that judges for it."""
    scores = score_suspects(model, popularity=popularity)
    return Suspects(model.training_log(), scores, np.clip(1 - model.explained_shares(), 0, 1), steady)


def score_suspects(model: Judged, *, popularity: float = 0.0) -> FloatArray:
    """Return `find_suspects(...).scores`, shape (n_events,), alone."""
    check_popularity(popularity)
    judge = model.as_judge()
    return score_noise(judge.leave_out(), popularity, getattr(judge, "seed", 0))


def find_suspects_in(data: Any, *, popularity: float = 0.0, model: Any = None) -> Suspects:
    """Return how suspect the events of a log are, by a new model with the parameters of `model`, or a CSRR's own."""
    check_popularity(popularity)
    if model is None:
        model = MODELS["CSRR"](reg_sparse=STRONG, reg_low_rank="noise", neighbors=0)
    if not hasattr(model, "make_strict"):
        raise ParameterError(f"model={model!r} must be a CSRR or CSRRe with the parameters to judge by")
    model.check_params()
    log = model.read(data)
    found = find_suspects(model.make_strict(log).fit(log), popularity=popularity)
    return Suspects(log, found.scores, found.unexplained)


def clean(data: Any, *, above: float = 0.5, popularity: float = 0.0, model: Any = None) -> Log:
    """Return a log without the events that are probably noise.

    Weights, times and titles stay, and so do all users and items.

    Parameters
    ----------
    data
        A log, a table with user and item columns, or a users x items matrix.
    above
        Events that are noise with a larger probability go.
    popularity
        Noise is taken to fall on an item in proportion to (its clicks + 1)^popularity.
    model
        A CSRR or CSRRe with the parameters to judge by; it is not fitted itself.

    Returns
    -------
    log
        The events that stay.

    Raises
    ------
    ParameterError
        For another model, or an `above` or `popularity` that makes no sense.

    Examples
    --------
    To see what goes, and why, take the two steps yourself:

    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> found = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0).fit(log).suspects()
    >>> kept, removed = log.select(~found.above(0.5)), log.select(found.above(0.5))
    >>> len(csrr.clean(log)) == len(kept)
    True
    """
    check_number("above", above, above=0, most=1)
    found = find_suspects_in(data, popularity=popularity, model=model)
    return found.log.select(~found.above(above))
