"""How loops are compiled: when one is first called, once for a machine, and without what nobody calls.

numba is imported then too, so that nobody waits for it who only reads, asks for help or scores with what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any

_LOCK = RLock()


class Loop:
    """A function that compiles when it is first called. So do the loops that it calls."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Any:
        """What numba makes of the function; it compiles for the types of the first call."""
        with _LOCK:
            if self._compiled is None:
                from numba import njit

                # numba looks names up in the module, and knows its own functions only.
                names = self._function.__globals__
                for name in self._function.__code__.co_names:
                    if isinstance(names.get(name), Loop):
                        names[name] = names[name].compile()
                self._compiled = njit(nogil=True, cache=True, no_cfunc_wrapper=True, **self._options)(self._function)
        return self._compiled


def compile_loop(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator for a loop that Python calls, with more options of numba's.

    The interpreter lock is released. Arrays that a loop fills or works in are given to it: to make one is quick in
    Python, and a tenth of a second for the compiler.
    """
    return lambda function: Loop(function, options)


def compile_part(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator for what only compiled loops call: Python cannot, and the compiler has less to do."""
    return compile_loop(no_cpython_wrapper=True, **options)
