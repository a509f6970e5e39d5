"""How loops are compiled: when one is first called, once for a machine, and without what nobody calls.

numba is imported then too, so that nobody waits for it who only reads, asks for help or looks at a result.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import FunctionType
from typing import Any, NoReturn

_LOCK = RLock()


class Loop:
    """A function that compiles when it is first called. So do the loops that it calls."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Any:
        """What numba makes of the function; it compiles for the types of the first call."""
        with _LOCK:
            if self._compiled is None:
                from numba import njit

                options = {"nogil": True, "cache": True, "no_cfunc_wrapper": True} | self._options
                self._compiled = njit(**options)(self._with_compiled_names())
        return self._compiled

    def _with_compiled_names(self) -> FunctionType:
        """The function, for which the loops that its module names are what numba makes of them."""
        old, names = self._function, dict(self._function.__globals__)
        for name in old.__code__.co_names:
            if isinstance(names.get(name), Loop):
                names[name] = names[name].compile()
        made = FunctionType(old.__code__, names, old.__name__, old.__defaults__, old.__closure__)
        made.__qualname__ = old.__qualname__
        return made


class Part(Loop):
    """A function that compiled loops call, and Python cannot."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        super().__init__(function, options | {"no_cpython_wrapper": True})

    def __call__(self, *arguments: Any) -> NoReturn:
        raise TypeError(f"{self._function.__qualname__} is for compiled loops; Python cannot call it")


def compile_loop(**options: Any) -> Callable[[Any], Any]:
    """A decorator for a loop that Python calls, with more options of numba's.

    The interpreter lock is released. Arrays that a loop fills or works in are given to it: to make one is quick in
    Python, and a tenth of a second for the compiler.
    """
    return lambda function: Loop(function, options)


def compile_part(**options: Any) -> Callable[[Any], Any]:
    """A decorator for what only compiled loops call, which is less to compile."""
    return lambda function: Part(function, options)
