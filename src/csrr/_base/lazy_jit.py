"""Compiled loops: each is compiled when it is first called, once for a machine, and only if it is called.

numba is imported then too, so that nobody waits for it to read a log, to see the help or to look at a result.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import RLock
from types import FunctionType
from typing import Any, NoReturn

_logger = logging.getLogger(__name__)
_LOCK = RLock()


class Loop:
    """A function that compiles when it is first called. So do the loops that it calls."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Any:
        """Return the function compiled by numba, for the types of the first call."""
        with _LOCK:
            if self._compiled is None:
                from numba import njit

                options = {"nogil": True, "no_cfunc_wrapper": True} | self._options
                function = self._with_compiled_names()
                compiled = njit(**options)(function)
                compiled._cache = _cache_class()(function)  # noqa: SLF001 - cache=True would take numba's own
                self._compiled = compiled
        return self._compiled

    def _with_compiled_names(self) -> FunctionType:
        """Return the function with compiled loops in place of those that its module names."""
        old, names = self._function, dict(self._function.__globals__)
        for name in old.__code__.co_names:
            if isinstance(names.get(name), Loop):
                names[name] = names[name].compile()
        made = FunctionType(old.__code__, names, old.__name__, old.__defaults__, old.__closure__)
        made.__qualname__ = old.__qualname__
        return made


class InlinedLoop(Loop):
    """A function that compiled loops call, and Python cannot."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        super().__init__(function, options | {"no_cpython_wrapper": True})

    def __call__(self, *arguments: Any) -> NoReturn:
        raise TypeError(f"{self._function.__qualname__} is for compiled loops; Python cannot call it")


def compile_loop(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator for a loop that Python calls, with more options of numba's.

    The interpreter lock is released. Arrays that a loop fills or works in are given to it: making one is quick in
    Python, but compiling that takes a tenth of a second.
    """
    return lambda function: Loop(function, options)


def compile_part(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator for a function that only compiled loops call: Python needs no wrapper for it."""
    return lambda function: InlinedLoop(function, options)


@cache
def _cache_class() -> Any:
    """Return numba's cache of compiled loops, changed so that a full, damaged or read-only disk never stops a call.

    A folder that can only be read is used: an administrator, or the build of an image, may have compiled loops there.
    Damaged machine code could crash the process, so its checksum is stored with it.
    """
    from numba.core import caching
    from numba.core.serialize import dumps

    class UncheckedFolder:
        def ensure_cache_path(self) -> None:
            """Accept the folder, also if it cannot be written to."""

    class GivenFolder(UncheckedFolder, caching.UserProvidedCacheLocator):  # type: ignore[misc]
        pass

    class SourceFolder(UncheckedFolder, caching.InTreeCacheLocator):  # type: ignore[misc]
        pass

    class Content(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (*caching.CompileResultCacheImpl._locator_classes, GivenFolder, SourceFolder)  # noqa: SLF001

        def reduce(self, compiled: Any) -> tuple[bytes, bytes]:
            data: bytes = dumps(super().reduce(compiled))
            return hashlib.sha256(data).digest(), data

        def rebuild(self, context: Any, kept: tuple[bytes, bytes]) -> Any:
            digest, data = kept
            if hashlib.sha256(data).digest() != digest:
                raise ValueError("the checksum is not that of the content")
            return super().rebuild(context, pickle.loads(data))  # noqa: S301 - written by us, as numba's are

    class Files(caching.IndexDataCacheFile):  # type: ignore[misc]
        def save(self, key: Any, data: Any) -> None:
            """Save code under the name of what it is compiled for.

            Under the next number, as numba does it, two processes at once gave two loops one file.
            """
            overloads = self._load_index()
            overloads[key] = name = self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:15], 16))
            self._save_index(overloads)
            self._save_data(name, data)

    class Cache(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Content
        is_told = False

        def __init__(self, function: Any) -> None:
            super().__init__(function)
            stamp = self._impl.locator.get_source_stamp()
            self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

        def load_overload(self, signature: Any, context: Any) -> Any:
            try:
                return super().load_overload(signature, context)
            except Exception as error:
                _logger.info("what is compiled in %s is damaged (%s); compiling again", self.cache_path, error)
            with suppress(OSError):
                self.flush()
            return None

        def save_overload(self, signature: Any, compiled: Any) -> None:
            try:
                super().save_overload(signature, compiled)
            except Exception as error:  # an index that cannot be replaced may hold anything
                if not Cache.is_told:
                    Cache.is_told = True
                    _logger.warning(
                        "compiled loops cannot be kept in %s (%s), so each process compiles its own, for seconds;"
                        " set NUMBA_CACHE_DIR to a folder that can be written",
                        self.cache_path,
                        getattr(error, "strerror", None) or error,
                    )

    return Cache
