"""Compiled loops over the observed cells. Each releases the interpreter lock and works on a range of rows."""

from __future__ import annotations

from csrr.compiled import compile_loop


@compile_loop(fastmath=True)
def multiply_rows(start, stop, indptr, indices, values, x, out):  # type: ignore[no-untyped-def]
    # out[start:stop] = S[start:stop] @ x
    width = x.shape[1]
    for i in range(start, stop):
        row = out[i]
        for c in range(width):
            row[c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            value = values[p]
            other = x[indices[p]]
            for c in range(width):
                row[c] += value * other[c]


@compile_loop(fastmath=True)
def dot_observed(start, stop, indptr, indices, left, right, width, out):  # type: ignore[no-untyped-def]
    # out[p] = left[i, :width] . right[j, :width] for every observed cell p = (i, j)
    zero = out.dtype.type(0)
    for i in range(start, stop):
        row = left[i]
        for p in range(indptr[i], indptr[i + 1]):
            other = right[indices[p]]
            total = zero
            for c in range(width):
                total += row[c] * other[c]
            out[p] = total
