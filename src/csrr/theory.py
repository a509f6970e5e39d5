"""The paper's bounds, those that can be proved, and a measurement of what they bound: `csrr.paper.theory`."""

from csrr.paper.theory import *  # noqa: F403
from csrr.paper.theory import __all__ as __all__
