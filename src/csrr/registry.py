"""The models by name: where ours live, and those that others add. A new model is named here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Kind = TypeVar("Kind", bound=type)

HOMES = {
    "CSRR": "csrr.models.csrr",
    "CSRRe": "csrr.models.csrre",
    "PopRank": "csrr.models.popularity",
    "WRMF": "csrr.models.wrmf",
    "BPRMF": "csrr.models.bprmf",
    "MCShift": "csrr.models.mcshift",
    "BiasMC": "csrr.models.mcshift",
    "EASE": "csrr.models.ease",
    "ItemKNN": "csrr.models.itemknn",
}
"""Our own models, imported when they are first asked for."""

_added: dict[str, type] = {}


class Models(Mapping[str, "Any"]):
    """The models that can be loaded, tuned and named on the command line: classes by name."""

    def __getitem__(self, name: str) -> Any:
        if name in HOMES:
            return getattr(import_module(HOMES[name]), name)
        return _added[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*HOMES, *_added])

    def __len__(self) -> int:
        return len(HOMES) + len(_added)


MODELS = Models()


def register(kind: Kind) -> Kind:
    """Register your own model class by name, so that `csrr.load` and `csrr.tune` find it; return the class.

    Parameters
    ----------
    kind
        A subclass of `csrr.Recommender`. `register` also works as a decorator, `@csrr.register`.

    Returns
    -------
    type
        The class itself.

    Examples
    --------
    >>> import csrr
    >>> @csrr.register
    ... class Alphabetical(csrr.Recommender):
    ...     def fit(self, data):
    ...         self.remember(self.read(data))
    ...         return self
    ...
    ...     def score_histories(self, seen, rows):
    ...         return np.tile(-np.arange(seen.shape[1], dtype=np.float32), (len(rows), 1))
    """
    if kind.__name__ in HOMES:
        raise ValueError(f"{kind.__name__} is the name of a model of csrr; give yours another")
    _added[kind.__name__] = kind
    return kind
