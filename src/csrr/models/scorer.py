"""The scores of a model, and their meaning: probabilities, expected costs, noise in the training events."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, Rows
from csrr.data.errors import DataWarning, warn_caller
from csrr.data.ids import Id
from csrr.data.log import Log, as_log
from csrr.data.tables import is_table
from csrr.models.estimator import Estimator, ask_one_state
from csrr.models.recommend import check_calibrated, find_user_rows, is_one_id, list_ids, name_items, rank_items
from csrr.noise.scores import LeaveOneOut
from csrr.noise.suspects import Suspects, find_suspects
from csrr.numerics.problem import Pattern
from csrr.numerics.thread_engine import THREADS
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.ranking.calibration import Calibration
from csrr.ranking.metrics import HitMetric, mark_hits, ndcg
from csrr.ranking.reliability import Reliability
from csrr.ranking.topk import Cells, Products, ScoredItems, score_blocks
from csrr.results.recommendations import Explanation
from csrr.results.table import ResultTable

MOST_GROUPS = 20
"""The largest number of groups of items, or of users, that `Recommender.calibrate` makes."""
SCORED_AT = 10
"""The length of the lists that `Recommender.score` measures."""
PAIRS, USERS = 2**15, 2**8
"""Number of pairs scored at a time, and of the users whose scores of all items these are taken from."""
_ROWS_SPLIT = (
    "no score: scikit-learn splits the rows of a matrix, which are users, and a model cannot rank for users it was not"
    " fitted to; pass a table of events (log.to_frame()) and cv=csrr.interop.PerUserSplit()"
)


class Scorer(Estimator):
    """The part of `Recommender` that has to do with scores: their computation, probabilities and costs, suspects."""

    def score_rows(self, rows: Rows) -> Float32Array:
        """Return the scores of all items for users by row number.

        Parameters
        ----------
        rows
            The rows of the users.

        Returns
        -------
        scores
            A new float32 array of shape (len(rows), n_items).
        """
        products = self.make_products()
        return self.score_histories(self.histories, rows) if products is None else products(rows)

    def make_products(self) -> Products | None:
        """Return the scores as products of factors and of weights between items; None where they are something else.

        Returns
        -------
        products
            Scores by user row, whose best items are found without computing all of them.
        """
        return Products.of_factors(self.user_factors_, self.scored_items()) if self.has_factors else None

    def scored_items(self, weights: Any = None) -> ScoredItems:
        """Return the items' part of the products, made once for their factors.

        Parameters
        ----------
        weights
            Weights between items, csr of shape (n_items, n_items); None for none.

        Returns
        -------
        items
            Factors and weights.
        """
        made: ScoredItems = self._compute_once("items", lambda: ScoredItems(self.item_factors_, weights))
        return made if made.factors is self.item_factors_ else ScoredItems(self.item_factors_, weights)

    def score_histories(self, seen: Any, rows: Rows) -> Float32Array:
        """Return the scores of all items, given histories.

        Parameters
        ----------
        seen
            Histories, a row each: csr of shape (n, n_items), with values as in `histories`.
        rows
            The rows to score.

        Returns
        -------
        scores
            A new float32 array of shape (len(rows), n_items).
        """
        raise NotImplementedError(f"a {type(self).__name__} knows only the users it was fitted to")

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> Float32Array:
        """Return the score of each pair of a user row and an item row.

        Parameters
        ----------
        user_rows, item_rows
            The rows of the users and of the items, shape (n,) each.

        Returns
        -------
        scores
            Shape (n,).
        """
        if self.has_factors:
            products: Float32Array = np.einsum("nd,nd->n", self.user_factors_[user_rows], self.item_factors_[item_rows])
            return products
        scores = np.empty(len(user_rows), np.float32)
        distinct, place = np.unique(user_rows, return_inverse=True)
        for first in range(0, len(distinct), USERS):
            block = self.score_rows(distinct[first : first + USERS])
            mine = (place >= first) & (place < first + USERS)
            scores[mine] = block[place[mine] - first, item_rows[mine]]
        return scores

    @overload
    def score(self, users: Log, items: None = None) -> float: ...

    @overload
    def score(self, users: Any, items: Any = None) -> Float32Array: ...

    @ask_one_state
    def score(self, users: Any, items: Any = None) -> Float32Array | float:
        """Return the scores of user-item pairs, or of users and all items.

        Parameters
        ----------
        users, items
            Ids, the same number of each; a single id is paired with all of the others. For scikit-learn, `users` may
            be a log or table of held-out events.

        Returns
        -------
        scores
            Shape (n,); without `items`, (n, n_items). For held-out events: the mean NDCG@10 over users, training
            events left out.

        Raises
        ------
        ValueError
            If the numbers of users and items differ.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.score(3).shape, model.score(3, [5, 6]).shape
        ((1, 40), (2,))
        """
        self.check_fitted()
        if items is None and holds_events(users):
            return measure_heldout(self, users)
        user_rows = self.users_.rows(list_ids(users))
        if items is None:
            return self.score_rows(user_rows)
        item_rows = self.items_.rows(list_ids(items), "item")
        if len(user_rows) != len(item_rows) and not (is_one_id(users) or is_one_id(items)):
            raise ValueError(f"pairs need as many users as items, got {len(user_rows)} and {len(item_rows)}")
        # Copies, because compiled loops cannot take arrays that numpy broadcast from one number.
        user_rows, item_rows = (np.array(each) for each in np.broadcast_arrays(user_rows, item_rows))
        scores = np.empty(len(user_rows), np.float32)
        for first in range(0, len(scores), PAIRS):
            part = slice(first, first + PAIRS)
            scores[part] = self.score_pairs(user_rows[part], item_rows[part])
        return scores

    # Probabilities and costs

    def calibrate(
        self, heldout: Any, *, observed_share: float = 1.0, users: Any = None, n_groups: int = 1
    ) -> Calibration:
        """Learn from held-out events how scores map to probabilities; return the calibration, kept as `calibration_`.

        It counts all cells that are not in the training data, also those of users without held-out events; without
        these, every probability would be too high. The calibration is saved with the model; a new `fit` drops it.

        Parameters
        ----------
        heldout
            A log, or anything that `csrr.read` takes. Events of unknown users or items, and events of the training
            data, are left out.
        observed_share
            The share of all positives that training and held-out events show together; see `Calibration`.
        users
            The ids of the users that `heldout` covers, if not all.
        n_groups
            The number of groups of items by training events, and of users likewise, from 1 to 20. Each pair of
            groups gets its own curve, shrunk toward the common one if it has few positives: a single curve can be too
            high for some groups and too low for others. With 1 there is one curve, and probabilities have the order
            of scores.

        Returns
        -------
        calibration
            The calibration.

        Examples
        --------
        >>> train, heldout = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model = csrr.EASE(reg=10).fit(train)
        >>> calibration = model.calibrate(heldout)
        >>> bool(0 < model.probability(3, 5)[0] < 1)
        True
        """
        self.check_fitted()
        check_number("observed_share", observed_share, above=0, most=1)
        check_whole("n_groups", n_groups, least=1)
        check_number("n_groups", n_groups, least=1, most=MOST_GROUPS)
        cells = self._collect_cells(heldout, users)
        self.calibration_ = Calibration.of(cells, observed_share=observed_share, n_groups=int(n_groups))
        return self.calibration_

    @ask_one_state
    def reliability(self, heldout: Any, *, users: Any = None, observed_share: float | None = None) -> Reliability:
        """Compare probabilities with held-out events that `calibrate` has not seen.

        Parameters
        ----------
        heldout, users
            As for `calibrate`.
        observed_share
            The share of all positives that training and these held-out events show; None: that of the calibration.

        Returns
        -------
        reliability
            Predicted and observed rates; `by_popularity` and `by_activity` give them by groups of items and users.
        """
        self.check_fitted()
        calibration = check_calibrated(self)
        if observed_share is not None:
            check_number("observed_share", observed_share, above=0, most=1)
        return calibration.check(self._collect_cells(heldout, users), observed_share=observed_share)

    @ask_one_state
    def probability(self, users: Any, items: Any = None) -> npt.NDArray[np.float64]:
        """Return the probability that a user chooses an item, for pairs not in the training data.

        Parameters
        ----------
        users, items
            As for `score`.

        Returns
        -------
        probabilities
            The shape is that of `score`.

        Raises
        ------
        ParameterError
            Before `calibrate`.
        """
        self.check_fitted()
        calibration, scores = check_calibrated(self), self.score(users, items)
        activity = np.diff(self.seen_.indptr)[self.users_.rows(list_ids(users))]
        if items is None:
            return calibration.probability(scores, activity[:, None], np.arange(len(self.items_)))
        return calibration.probability(scores, activity, self.items_.rows(list_ids(items), "item"))

    @property
    def decision_probability(self) -> float | None:
        """The probability above which recommending pays, given the model's costs; None without costs."""
        return None

    def expected_cost(
        self,
        heldout: Any = None,
        *,
        miss: float | None = None,
        false_alarm: float | None = None,
        lengths: Sequence[int] = (1, 5, 10, 20),
    ) -> ResultTable:
        """Return what showing nothing, the best items, or all items that pay is expected to cost a user.

        Parameters
        ----------
        heldout
            Events that neither the fit nor `calibrate` has seen: then the table also says what each choice did cost.
        miss, false_alarm
            The costs; default: those of the model.
        lengths
            Lengths of lists.

        Returns
        -------
        table
            A row for each choice: choice, items a user, expected, cost if there are held-out events, and the ends of
            their 95 % intervals over users. Costs are those of events as many as calibration was learned from.

        Raises
        ------
        ParameterError
            Before `calibrate`, or without costs.

        Examples
        --------
        >>> train, rest = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log, ratio=0.6)
        >>> heldout, test = csrr.split(rest, ratio=0.5)
        >>> model = csrr.CSRR(miss_cost=5, false_alarm_cost=1).fit(train)
        >>> calibration = model.calibrate(heldout)
        >>> list(model.expected_cost(test, lengths=[5])["choice"])
        ['nothing', 'the best 5', 'all that pay']
        """
        self.check_fitted()
        calibration, (price, alarm) = check_calibrated(self), _choose_prices(self, miss, false_alarm)
        for k in lengths:
            check_whole("lengths", k, least=1)
        names = ["nothing", *(f"the best {k}" for k in lengths), "all that pay"]
        n_items, rows = len(self.items_), np.arange(len(self.users_))
        activity = np.diff(self.seen_of_target.indptr)
        came = None if heldout is None else find_unseen_events(as_log(heldout), self).to_csr()
        n_shown, expected, paid = (np.zeros((len(rows), len(names))) for _ in range(3))
        for part, scores in score_blocks(self.score_rows, rows, n_items, seen=self.seen_of_target):
            is_open = scores > -np.inf
            said = np.where(is_open, calibration.probability(scores, activity[part, None], np.arange(n_items)), 0)
            lost = price * _compute_miss_factors(self, rows[part], n_items)
            order = np.argsort(-scores, axis=1, kind="stable")[:, : max([*lengths, 1])]
            shown = [np.zeros_like(is_open)]
            for k in lengths:
                best = np.zeros_like(is_open)
                np.put_along_axis(best, order[:, :k], values=True, axis=1)
                shown.append(best & is_open)
            shown.append((said * lost > (1 - said) * alarm) & is_open)
            true = None if came is None else came[rows[part]].toarray() > 0
            for at, mine in enumerate(shown):
                n_shown[part, at] = mine.sum(1)
                expected[part, at] = np.where(mine, (1 - said) * alarm, said * lost * is_open).sum(1)
                if true is not None:
                    paid[part, at] = np.where(mine, ~true * alarm, true * lost).sum(1)
        lines = []
        for at, name in enumerate(names):
            line = {"choice": name, "items": float(n_shown[:, at].mean())} | _describe("expected", expected[:, at])
            lines.append(line if came is None else line | _describe("cost", paid[:, at]))
        return ResultTable.from_rows(lines)

    def decide_cells(self, user_rows: Rows, item_rows: Rows) -> Any:
        """Return the probability above which recommending a cell pays.

        Parameters
        ----------
        user_rows, item_rows
            Their rows, of shapes that go together; -1 for users and items that the model does not know.

        Returns
        -------
        probabilities
            One for all, or of the common shape.
        """
        return self.decision_probability

    def _collect_cells(self, heldout: Any, users: Any) -> Cells:
        """Return the cells to learn probabilities from."""
        log, rows = as_log(heldout), np.unique(find_user_rows(self, users))
        relevant = find_unseen_events(log, self).to_csr()
        if not np.diff(relevant.indptr)[rows].any():
            raise ParameterError(
                "calibration needs positives: events that are not in the training data, of users and items that the"
                f" model knows; none of the {len(log):,} held-out events is one"
            )
        return Cells(self.score_rows, rows, len(self.items_), relevant, self.seen_of_target)

    # Noisy clicks

    @ask_one_state
    def suspects(self, *, popularity: float = 0.0) -> Suspects:
        """Score each training event by how much it looks like noise, and rank users and items by it.

        Parameters
        ----------
        popularity
            Noise is assumed to hit an item in proportion to (its clicks + 1)^popularity. 0 suits random clicks; 0.5
            finds more noise on popular and on pushed items, and takes more genuine clicks for noise.

        Returns
        -------
        suspects
            A score for each event: the probability of noise under the assumptions of `Suspects`.

        Raises
        ------
        NotImplementedError
            If the model cannot score a click without using that click.
        """
        self.check_fitted()
        return find_suspects(self, popularity=popularity)

    def score_own(self) -> Float32Array:
        """Return the leave-one-out score of each training event: its score without its own influence.

        Returns
        -------
        scores
            Shape (n_events,), in the order of `seen_`.
        """
        raise NotImplementedError(f"a {type(self).__name__} cannot score a click without its own influence")

    def noise_model(self) -> Any:
        """Return the model that scores clicks for `suspects`.

        Returns
        -------
        judge
            This model, or a refit of it with suitable regularization.
        """
        return self

    def leave_out(self) -> LeaveOneOut:
        """Return the values of all cells from which noise is estimated.

        Returns
        -------
        values
            The values of clicks are leave-one-out.
        """
        return LeaveOneOut(
            Pattern.of(self.seen_, THREADS), self.score_own(), lambda rows, items: self.score_rows(rows)[:, items]
        )

    def explained_shares(self) -> Float32Array:
        """Return the share of each training event that its score explains.

        Returns
        -------
        shares
            Shape (n_events,).
        """
        rows = np.repeat(np.arange(len(self.users_)), np.diff(self.seen_.indptr))
        return self.score_pairs(rows, self.seen_.indices)


def find_unseen_events(events: Log, model: Scorer) -> Log:
    """The events whose user and item the model knows and that are not in its training data, in its row numbers.

    Where there is a target, events of that type count on both sides.
    """
    events = events.of_target()
    rows = model.users_.find(events.users.ids)[events.user_rows]
    columns = model.items_.find(events.items.ids, "item")[events.item_rows]
    n_items = len(model.items_)
    seen = model.seen_of_target.tocoo()
    keys = np.unique((rows * n_items + columns)[(rows >= 0) & (columns >= 0)])
    left = np.setdiff1d(keys, seen.row.astype(np.int64) * n_items + seen.col)
    return Log(model.users_, model.items_, left // n_items, left % n_items)


def holds_events(data: Any) -> bool:
    """Whether data are events, and not ids: a log, a table or a matrix."""
    # Columns of pandas, polars and Arrow can be streamed like their tables.
    is_of_columns = isinstance(data, Mapping) or (is_table(data) and hasattr(data, "columns"))
    return isinstance(data, Log) or is_of_columns or _is_matrix(data)


def _is_matrix(data: Any) -> bool:
    return sparse.issparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2)


def measure_heldout(model: Any, heldout: Any, metric: HitMetric = ndcg, k: int = SCORED_AT) -> float:
    """Return the mean of a metric of lists of length k, over users with a held-out event of a known item."""
    if _is_matrix(heldout):
        if "sklearn.model_selection" in sys.modules:
            # Its searches turn an error into NaN and a traceback; a warning gives the reason before that.
            warn_caller(_ROWS_SPLIT, DataWarning)
        raise ParameterError(
            "a matrix of held-out events does not say which of the model's users its rows are; give a log or a table"
            " with user and item columns"
        )
    unseen = find_unseen_events(as_log(heldout), model)
    relevant, n_relevant = unseen.to_csr(), unseen.user_counts()
    rows = np.flatnonzero(n_relevant)
    if not len(rows):
        raise ParameterError(
            "there is nothing to score on: no event is of a user and an item that the model knows and is not in its"
            " training data"
        )
    items, _ = rank_items(model, rows, min(k, len(model.items_)), seen=model.seen_of_target)
    return float(np.nanmean(metric(mark_hits(items, relevant, rows), n_relevant[rows])))


def explain_score(
    model: Scorer, user: Id, item: Id, history: Rows, amounts: npt.NDArray[Any], neighbors: Any = None, ages: Any = None
) -> Explanation:
    """Return what each item row of `history` adds to the score of an item: `amounts`, of which `neighbors` are a part.

    The rest of the score is spread over the amounts in proportion; the part of neighbors is exact. `ages` are the
    numbers of later events of the user, (n,), where order counts.
    """
    pair = np.array([model.users_.row(user)]), np.array([model.items_.row(item, "item")])
    score = float(model.score_pairs(*pair)[0])
    amounts = spread_amounts(amounts, score, neighbors)
    order = np.argsort(-amounts, kind="stable")
    named = name_items(model, history[order])
    parts = None if neighbors is None else neighbors[order].astype(np.float32)
    _, titles = name_items(model, pair[1])
    title = None if titles is None else titles[0] or None
    ages = None if ages is None else ages[order]
    return Explanation(*named, amounts[order].astype(np.float32), user, item, score, parts, title, ages)


def spread_amounts(amounts: AnyArray, score: float, neighbors: Float32Array | None) -> AnyArray:
    """Return amounts, (n,), that sum to a score: the neighbors' as they are, the rest in proportion."""
    size = np.abs(amounts).sum()
    through = np.zeros(len(amounts), np.float32) if neighbors is None else neighbors
    if size > 0:
        amounts = amounts + (score - through.sum() - amounts.sum()) * (np.abs(amounts) / size)
    return amounts + through


def solve_penalized(system: AnyArray, right: AnyArray) -> AnyArray:
    """Return the solution, (d,), of a system F'F + l1*I, (d, d); ParameterError where l1 is lost beside F'F."""
    try:
        return np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        raise ParameterError(
            "the factors are so large that their penalty is lost beside them, and nothing can be explained by them;"
            " fit with a larger strength"
        ) from None


def _choose_prices(model: Scorer, miss: float | None, false_alarm: float | None) -> tuple[float, float]:
    """Return the costs of a miss and of a false alarm: as given, or those of the model."""
    if miss is None and false_alarm is None:
        params = model.get_params()
        if params.get("miss_cost") is not None:
            return float(params["miss_cost"]), float(params["false_alarm_cost"])
        if (least := model.decision_probability) is None:
            raise ParameterError(f"this {type(model).__name__} has no costs; give miss and false_alarm")
        return 1 / least - 1, 1.0
    if miss is None or false_alarm is None:
        raise ParameterError("miss and false_alarm go together")
    check_number("miss", miss, above=0)
    check_number("false_alarm", false_alarm, above=0)
    return float(miss), float(false_alarm)


def _compute_miss_factors(model: Scorer, rows: Any, n_items: int) -> Any:
    """Return the cost of a miss of each cell, as a factor on the common one: (n, n_items), or 1 for all."""
    common = model.decision_probability
    if common is None:
        return 1.0
    return (1 / model.decide_cells(rows[:, None], np.arange(n_items)) - 1) / (1 / common - 1)


def _describe(name: str, values: Float64Array) -> dict[str, float]:
    """Return the mean of users' values, (n,), and the ends of its 95 % interval."""
    mean, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
