"""Arrays on a device, by PyTorch, that answer numpy's calls: what is written in numpy for arrays runs there."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch

from csrr._base.arrays import AnyArray

TYPES = {np.dtype(name): getattr(torch, name) for name in ("bool", "int32", "int64", "float32", "float64")}
_NAMES = {theirs: ours for ours, theirs in TYPES.items()}

HOST_EIGENPROBLEMS = 32
"""Up to this size a processor solves an eigenproblem in less time than a GPU does."""


class DeviceArray:
    """A tensor with numpy's names: the arithmetic, slices and functions that `Engine` allows of arrays.

    With it go numbers, numpy arrays, which are sent to the device, and others of its kind. numpy cannot take it for an
    array of its own, so that nothing is fetched by accident.
    """

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this array is on a device; `Engine.get` fetches it")

    @property
    def dtype(self) -> Any:
        return _NAMES[self.tensor.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def size(self) -> int:
        return int(self.tensor.numel())

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    @property
    def T(self) -> DeviceArray:
        return DeviceArray(self.tensor.T)

    def astype(self, dtype: Any) -> DeviceArray:
        return DeviceArray(self.tensor.to(TYPES[np.dtype(dtype)]))

    def copy(self) -> DeviceArray:
        return DeviceArray(self.tensor.clone(memory_format=torch.contiguous_format))

    def __getitem__(self, key: Any) -> DeviceArray:
        parts, turned = [], []
        for axis, part in enumerate(key if isinstance(key, tuple) else (key,)):
            is_turned = isinstance(part, slice) and part == slice(None, None, -1)
            turned += [axis] * is_turned
            parts.append(slice(None) if is_turned else lift(part, self.tensor.device))
        found = self.tensor[tuple(parts)]
        return DeviceArray(found.flip(turned) if turned else found)

    def find_turn(self, least: float, share: float) -> DeviceArray | None:
        """What makes columns with this Gram matrix orthonormal, (k, k), by a Cholesky factorization.

        None where a pivot is below `least` or this share of the largest; an eigenproblem then tells more.
        """
        if not self.size:
            return None
        lower, failed = torch.linalg.cholesky_ex(self.tensor)
        # One look at the device for all that decides.
        number, low, high = torch.stack([failed.to(lower.dtype), *lower.diagonal().aminmax()]).tolist()
        if number or not low**2 > max(least, share * high**2):
            return None
        eye = _make_eye(len(lower), lower.dtype, lower.device)
        return DeviceArray(torch.linalg.solve_triangular(lower, eye, upper=False).T)

    def clip(self, low: Any = None, high: Any = None) -> DeviceArray:
        return DeviceArray(_clip(self.tensor, low, high))

    def sum(self, axis: int | None = None, dtype: Any = None) -> Any:
        return _lower(_sum(self.tensor, axis, dtype))

    def mean(self, dtype: Any = None) -> float:
        return float(_sum(self.tensor, None, dtype)) / max(self.size, 1)

    def max(self, initial: float | None = None) -> float:
        most = float(self.tensor.max()) if self.size else -np.inf
        return most if initial is None else max(most, initial)

    def min(self, initial: float | None = None) -> float:
        least = float(self.tensor.min()) if self.size else np.inf
        return least if initial is None else min(least, initial)

    def any(self) -> bool:
        return bool(self.tensor.any())

    def all(self) -> bool:
        return bool(self.tensor.all())

    def __float__(self) -> float:
        return float(self.tensor)

    def __neg__(self) -> DeviceArray:
        return DeviceArray(-self.tensor)

    def __abs__(self) -> DeviceArray:
        return DeviceArray(self.tensor.abs())

    # Numpy's side of an operator, and its functions of arrays

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, out: Any = None) -> Any:
        if method != "__call__" or ufunc.__name__ not in _ELEMENTWISE:
            raise TypeError(f"numpy.{ufunc.__name__} is not for arrays on a device")
        return DeviceArray(_ELEMENTWISE[ufunc.__name__](*(lift(each, self.tensor.device) for each in given)))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function not in _FUNCTIONS:
            raise TypeError(f"numpy.{function.__name__} is not for arrays on a device")
        return _FUNCTIONS[function](*_lift_all(args, self.tensor.device), **options)


@lru_cache(maxsize=8)
def _make_eye(size: int, kind: Any, device: Any) -> Any:
    return torch.eye(size, dtype=kind, device=device)


def lift(value: Any, device: Any) -> Any:
    """What torch takes for a value: the tensor of an array, sent to the device, or a plain number."""
    if isinstance(value, DeviceArray):
        return value.tensor
    if isinstance(value, np.ndarray):
        # Torch takes neither strides below 0 nor what may not be written to.
        is_plain = value.flags.c_contiguous and value.flags.writeable
        return torch.from_numpy(value if is_plain else np.array(value, order="C")).to(device)
    return value.item() if isinstance(value, np.generic) else value


def _lift_all(values: Any, device: Any) -> Any:
    if isinstance(values, list | tuple):
        return type(values)(_lift_all(each, device) for each in values)
    return lift(values, device)


def _lower(tensor: Any) -> Any:
    return DeviceArray(tensor) if tensor.ndim else float(tensor)


def multiply(x: Any, y: Any) -> Any:
    """x @ y of tensors, in the wider of their types."""
    kind = torch.result_type(x, y)
    return x.to(kind) @ y.to(kind)


def _sum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    kind = None if dtype is None else TYPES[np.dtype(dtype)]
    return x.sum(dtype=kind) if axis is None else x.sum(axis, dtype=kind)


def _cast(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.to(TYPES[np.dtype(dtype)])


def _clip(x: Any, low: Any, high: Any) -> Any:
    return x.clamp(*(lift(each, x.device) for each in (low, high)))


def _bound(name: str) -> Callable[[Any, Any], Any]:
    def bound(x: Any, y: Any) -> Any:
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            return getattr(torch, name)(x, y)
        tensor, number = (x, y) if isinstance(x, torch.Tensor) else (y, x)
        return tensor.clamp(**{"min" if name == "maximum" else "max": number})

    return bound


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "matmul": multiply,
    "maximum": _bound("maximum"),
    "minimum": _bound("minimum"),
    "sqrt": lambda x: x.sqrt(),
    "absolute": lambda x: x.abs(),
}


def solve_eigen(gram: Any, vectors: bool = True) -> Any:
    """Eigenvalues, (k,), in numpy, and eigenvectors, (k, k), of a symmetric tensor, (k, k)."""
    if len(gram) <= HOST_EIGENPROBLEMS or gram.device.type == "cpu":
        found = (np.linalg.eigh if vectors else np.linalg.eigvalsh)(gram.cpu().numpy())
        return (found[0], DeviceArray(lift(found[1], gram.device))) if vectors else found
    if not vectors:
        return torch.linalg.eigvalsh(gram).cpu().numpy()
    values, found = torch.linalg.eigh(gram)
    return values.cpu().numpy(), DeviceArray(found)


def _join(tensors: Sequence[Any], axis: int = 0) -> DeviceArray:
    return DeviceArray(torch.cat(list(tensors), axis))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: lambda x, axis=None, dtype=None: _lower(_sum(x, axis, dtype)),
    np.clip: lambda x, low, high: DeviceArray(_clip(x, low, high)),
    np.where: lambda which, x, y: DeviceArray(torch.where(which, x, y)),
    np.zeros_like: lambda x: DeviceArray(torch.zeros_like(x)),
    np.einsum: lambda text, *x, dtype=None: DeviceArray(torch.einsum(text, *(_cast(each, dtype) for each in x))),
    np.trace: lambda x: float(x.trace()),
    np.stack: lambda x: DeviceArray(torch.stack(x)),
    np.concatenate: _join,
    np.block: lambda rows: _join([torch.cat(row, 1) for row in rows]),
    np.linalg.eigh: solve_eigen,
    np.linalg.eigvalsh: lambda gram: solve_eigen(gram, vectors=False),
}


def _give_operators() -> None:
    def give(name: str, work: Callable[[Any, Any], Any]) -> None:
        def own(self: DeviceArray, other: Any) -> DeviceArray:
            return DeviceArray(work(self.tensor, lift(other, self.tensor.device)))

        def turned(self: DeviceArray, other: Any) -> DeviceArray:
            return DeviceArray(work(lift(other, self.tensor.device), self.tensor))

        def in_place(self: DeviceArray, other: Any) -> DeviceArray:
            self.tensor = work(self.tensor, lift(other, self.tensor.device))
            return self

        setattr(DeviceArray, f"__{name}__", own)
        setattr(DeviceArray, f"__r{name}__", turned)
        setattr(DeviceArray, f"__i{name}__", in_place)

    for name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
        give(name, multiply if name == "matmul" else getattr(operator, name))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        give(name, getattr(operator, name))


_give_operators()


_STAGED = 2**26
"""Bytes that are fetched at once into memory that cannot be moved, which a GPU writes to many times as fast."""


def fetch(x: Any) -> AnyArray:
    """A tensor as a numpy array."""
    found: AnyArray
    if x.device.type == "cpu" or x.numel() * x.element_size() <= _STAGED:
        found = x.cpu().numpy()
        return found
    out, flat = torch.empty(x.shape, dtype=x.dtype), x.reshape(-1)
    stage = _open_stage().view(x.dtype)
    for a in range(0, len(flat), len(stage)):
        part = flat[a : a + len(stage)]
        out.view(-1)[a : a + len(part)].copy_(stage[: len(part)].copy_(part))
    found = out.numpy()
    return found


@cache
def _open_stage() -> Any:
    return torch.empty(_STAGED, dtype=torch.uint8, pin_memory=True)
