"""The models by name: ours, which `models/__init__.pyi` declares, and those that others register; and the engines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Kind = TypeVar("Kind", bound=type)


def read_names(folder: str) -> dict[str, str]:
    """Return the names that the stub `__init__.pyi` of a package imports, each with its module."""
    with open(os.path.join(folder, "__init__.pyi"), encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from csrr.")]
    return {each[3]: each[1] for each in words if each[3] != "*"}


HOMES = read_names(os.path.join(os.path.dirname(__file__), "models"))
"""Our own models and their modules, which are imported when a model is first asked for."""

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

    def find(self, text: str) -> Any:
        """Return the model of a name in any case, with or without hyphens, or None."""
        bare = text.replace("-", "").replace("_", "").lower()
        return next((self[name] for name in self if name.lower() == bare), None)


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


ENGINES = {
    "threads": ("csrr.numerics.thread_engine", ""),
    "cuda": ("csrr.numerics.cuda_engine", "torch"),
    "dask": ("csrr.numerics.dask_engine", "distributed"),
}
"""The module of each engine, whose `open_engine` returns it, or raises RuntimeError where there is none; and the
package that it needs, for which there is an extra."""


def find_engine(engine: Any) -> Any:
    """Return the engine of a name, or an engine itself; "auto" is threads of this process.

    ParameterError if there is none of that name here, ImportError if its package is missing.
    """
    if not isinstance(engine, str) and engine is not None:
        return engine
    name = "threads" if engine in (None, "auto") else engine
    home, package = ENGINES[name]
    try:
        return import_module(home).open_engine()
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(f"engine={engine!r} needs {package}: pip install 'csrr[{name}]'") from None
    except RuntimeError as error:
        from csrr.parameters import ParameterError

        raise ParameterError(f"engine={engine!r}: {error}", parameter="engine", value=engine) from None
