"""`model.suspects()`: the clicks, users and items of a log that look most like noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray
from csrr.data.log import Log
from csrr.noise.scores import STRONG, NoiseModel, check_popularity, score_noise
from csrr.noise.stability import Stability
from csrr.parameters import ParameterError
from csrr.registry import MODELS
from csrr.results.table import SHOWN, ResultTable, TabularResult

DOUBT = 0.05
"""The scores are in doubt if clicks on the lowest ranks allow a share of noise that is larger by more than this."""
APART = 0.9
"""They are in doubt if the AUC that they promise is smaller than this."""
KNOWN = 5
"""They are in doubt if the median user has fewer genuine clicks: these say too little about a taste."""
UNTOLD = "Noise on popular items, and of accounts that act together, passes for taste."
"""A warning that holds for every log."""


@dataclass(frozen=True, eq=False, repr=False)
class Suspects(TabularResult):
    """Noise scores of the events of a log: how likely each click is accidental or fake.

    A score is a local false discovery rate under these assumptions, and not a probability if they fail: noise falls
    evenly over the items (or by `popularity`), a user's taste can be predicted from all other clicks, clicks from taste
    become rare toward the lowest-ranked items, and each user and item has a genuine click. So coordinated accounts look
    like a taste, and the first click of a new interest looks like noise. Diffuse taste looks like noise, too: no method
    can tell them apart without such assumptions. `is_doubtful` says if the scores depend strongly on them;
    docs/recipes/noisy-logs.md has the errors on planted data.

    Attributes
    ----------
    log
        The events.
    scores
        The scores, from 0 to 1, shape (n_events,), in the order of the log (by user row, then item row).
    unexplained
        The share of each click that the common taste does not explain, shape (n_events,).
    stability
        How stable V and the scores are under small changes, if requested; or None.
    share_at_bottom
        The share of noise if no genuine click falls on the lowest-ranked items: estimated from the lowest quarter of
        each user's ranking, or from the lowest twentieth if that gives more. Not a bound, since the ranking errs.

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
    share_at_bottom: float = 1.0

    @property
    def noise_share(self) -> float:
        """The estimated share of noise among all events, under the assumptions: the mean score."""
        return float(self.scores.mean())

    @property
    def is_doubtful(self) -> bool:
        """Whether the scores are unreliable; `doubt` says why."""
        return bool(self.doubt)

    @cached_property
    def doubt(self) -> str:
        """Why the scores are unreliable; empty if no reason is known."""
        log = self.log
        if self.share_at_bottom > self.noise_share + DOUBT:
            return "clicks on the lowest-ranked items give conflicting estimates"
        if self.separation < APART:
            return "the scores of noise and taste overlap"
        meant = np.bincount(log.user_rows, 1 - self.scores, minlength=log.n_users)[log.user_counts() > 0]
        return "most users have too few clicks to know their taste" if np.median(meant) < KNOWN else ""

    @property
    def separation(self) -> float:
        """The AUC of noise detection expected if the scores are right; 1 if there is no noise."""
        scores = np.sort(self.scores).astype(np.float64)
        clean = 1 - scores
        pairs = scores.sum() * clean.sum()
        return float(scores @ (np.cumsum(clean) - clean / 2) / pairs) if pairs > 0 else 1.0

    def describe_share(self) -> str:
        """Return a sentence on the share of noise and its assumptions.

        Returns
        -------
        text
            One line.
        """
        told = f"{self.noise_share:.1%} of {len(self):,} events look like noise"
        other = (
            f"{max(self.noise_share, self.share_at_bottom):.1%} if no genuine click falls on the lowest-ranked items"
        )
        return f"{told} ({other})" + (f"; unreliable: {self.doubt}" if self.is_doubtful else "")

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
    def order(self) -> npt.NDArray[np.int64]:
        """The row numbers of the events, most suspect first."""
        return np.lexsort((-self.unexplained, -self.scores))

    @cached_property
    def events(self) -> ResultTable:
        """The events, most suspect first: user, item, title (if known), score, unexplained."""
        log, order = self.log, self.order
        columns = {"user": log.users.ids[log.user_rows[order]]} | self._name_items(log.item_rows[order])
        return ResultTable(columns | {"score": self.scores[order], "unexplained": self.unexplained[order]})

    @cached_property
    def users(self) -> ResultTable:
        """The users with events, most suspect first: user, clicks, noise (the share of these that is noise)."""
        order, clicks, noise = self._group_by(self.log.user_rows, self.log.n_users)
        return ResultTable({"user": self.log.users.ids[order], "clicks": clicks, "noise": noise})

    @cached_property
    def items(self) -> ResultTable:
        """The items with events, most suspect first: item, title (if known), clicks, noise (as for users)."""
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

    def table(self) -> ResultTable:
        """Return the events as a table.

        Returns
        -------
        table
            `events`: most suspect first.
        """
        return self.events

    def _heading(self) -> str:
        assumed = "Scores assume that noise falls evenly over the items, and taste does not."
        return f"{self.describe_share()}.\n{assumed}\n{UNTOLD}"

    def __str__(self) -> str:
        steady = [] if self.stability is None else [str(self.stability)]
        return "\n".join([self._heading(), str(self.events.head(SHOWN)), *steady])

    def _repr_html_(self) -> str:
        steady = [] if self.stability is None else [self.stability._repr_html_()]
        return "\n".join([super()._repr_html_(), *steady])

    def __repr__(self) -> str:
        return f"Suspects: {len(self):,} events, {self.noise_share:.1%} of them noise (estimated)" + (
            ", unreliable" if self.is_doubtful else ""
        )


def find_suspects(model: NoiseModel, *, popularity: float = 0.0, steady: Stability | None = None) -> Suspects:
    """Return how suspect the clicks of a fitted model are, by the model that judges for it."""
    check_popularity(popularity)
    judge = model.noise_model()
    scores, bottom = score_noise(judge.leave_out(), popularity, getattr(judge, "seed", 0))
    return Suspects(model.training_log(), scores, np.clip(1 - model.explained_shares(), 0, 1), steady, bottom)


def find_suspects_in(data: Any, *, popularity: float = 0.0, model: Any = None) -> Suspects:
    """Return the noise scores of a log, by a new model with the parameters of `model`, or by a CSRR."""
    check_popularity(popularity)
    if model is None:
        model = MODELS["CSRR"](reg_sparse=STRONG, reg_low_rank="noise", neighbors=0)
    if not hasattr(model, "make_strict"):
        raise ParameterError(f"model={model!r} must be a CSRR or CSRRe with the parameters to judge by")
    model.check_params()
    log = model.read(data)
    found = find_suspects(model.make_strict(log).fit(log), popularity=popularity)
    return replace(found, log=log)
