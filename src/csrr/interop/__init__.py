"""Models of other libraries in csrr, and models of csrr in other libraries, which are imported only if they are used.

`from_scores`, `from_implicit`, `from_rectools` and `from_lenskit` return models that `csrr.evaluate` and `csrr.compare`
take; `to_rectools` and `to_lenskit` give those libraries our lists and our models; `PerUserSplit` and `ranking_scorer`
are for the searches of scikit-learn.
"""

from typing import Any

from csrr.interop.implicit import OutsideModel, from_implicit, from_scores
from csrr.interop.sklearn import PerUserSplit, ranking_scorer
from csrr.parameters import explain_names

__all__ = [
    "OutsideModel",
    "PerUserSplit",
    "from_implicit",
    "from_lenskit",
    "from_rectools",
    "from_scores",
    "ranking_scorer",
    "to_lenskit",
    "to_rectools",
]


def from_rectools(model: Any, dataset: Any) -> OutsideModel:
    """Wrap a fitted RecTools model as a csrr model.

    Parameters
    ----------
    model
        A fitted model of RecTools.
    dataset
        The `rectools.dataset.Dataset` that it was fitted to.

    Returns
    -------
    model
        For `csrr.evaluate`, `csrr.compare` and `recommend`; its `training_log()` is the dataset's events. Its scores
        are those of RecTools' `recommend` over all items; items that it leaves out are not ranked.
    """
    from csrr.interop import rectools

    return rectools.from_rectools(model, dataset)


def to_rectools(ours: Any) -> Any:
    """Convert recommendations, or a model, to RecTools.

    Parameters
    ----------
    ours
        Recommendations, for `rectools.metrics`; or a model, for `fit`, `recommend` and `cross_validate` of RecTools.

    Returns
    -------
    theirs
        A table of user_id, item_id, score and rank; or a `ModelBase`, not fitted, with the parameters of the model.
    """
    from csrr.interop import rectools

    return rectools.to_rectools(ours)


def from_lenskit(pipeline: Any, train: Any) -> OutsideModel:
    """Wrap a trained LensKit pipeline as a csrr model.

    Parameters
    ----------
    pipeline
        A trained pipeline with a "scorer".
    train
        The `lenskit.data.Dataset` that it was trained on, or the same events as a log.

    Returns
    -------
    model
        For `csrr.evaluate`, `csrr.compare` and `recommend`; its `training_log()` is the dataset's events. Items
        without a score are not ranked.
    """
    from csrr.interop import lenskit

    return lenskit.from_lenskit(pipeline, train)


def to_lenskit(ours: Any) -> Any:
    """Convert recommendations, or a model, to LensKit.

    Parameters
    ----------
    ours
        Recommendations, for `lenskit.metrics`; or a model, for `topn_pipeline`.

    Returns
    -------
    theirs
        An `ItemListCollection` by user_id; or a component that scores, not trained, with the parameters of the model.
    """
    from csrr.interop import lenskit

    return lenskit.to_lenskit(ours)


for _name in __all__:
    globals()[_name] = explain_names(globals()[_name])
