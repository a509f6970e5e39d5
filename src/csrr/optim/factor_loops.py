"""Compiled loops of the factored problem: for a block of rows, all that needs the observed cells in one pass."""

from __future__ import annotations

from csrr.compiled import compile_loop, compile_part


@compile_part(fastmath=True)
def weigh_cell(u, target, weight, cap, has_cap):  # type: ignore[no-untyped-def]
    # (h(u) - u^2/2, -h'(u) + u): what an observed cell adds to the loss and to the right-hand side, beyond its
    # share in the all-cells term 1/2*||P Q'||^2
    error = target - u
    penalty = 0.0
    if has_cap:
        v = min(max(error - cap / weight, 0.0), 1.0)
        penalty = cap * v
        error -= v
    return penalty + 0.5 * (weight * error * error - u * u), weight * error + u


@compile_part(fastmath=True)
def add_pulls(first, last, indices, target, weight, cap, has_cap, mine, other, out):  # type: ignore[no-untyped-def]
    # out += sum_j c_j * other[j], c = -h'(u) + u, over the cells of one row; returns sum_j (h(u) - u^2/2)
    width, kind = len(mine), mine.dtype.type
    total = 0.0
    for p in range(first, last):
        theirs = other[indices[p]]
        u = kind(0)
        for k in range(width):
            u += mine[k] * theirs[k]
        value, pull = weigh_cell(u, target[p], weight[p], cap[p] if has_cap else 0.0, has_cap)
        total += value
        pull = kind(pull)
        for k in range(width):
            out[k] += pull * theirs[k]
    return total


@compile_loop(fastmath=True)
def pull_rows(indptr, indices, target, weight, cap, own, has_cap, other, out, loss):  # type: ignore[no-untyped-def]
    # out[i] += sum_j c_ij * other[j], c = -h'(u) + u, and loss[i] = sum_j (h(u) - u^2/2), u = own[i] . other[j]
    for i in range(len(own)):
        loss[i] = add_pulls(indptr[i], indptr[i + 1], indices, target, weight, cap, has_cap, own[i], other, out[i])


@compile_loop(fastmath=True)
def descend_rows(  # type: ignore[no-untyped-def]
    indptr, indices, target, weight, cap, own, reg, has_cap, other, curvature, steps, relax, scratch, loss
):
    # Moves the rows of `own`, and fills `loss`; `scratch` is there to work in, (4, d).
    # With other' @ other = diag(curvature), each row p of `own` has the objective
    #     1/2*p'Mp + sum_j (h(u_j) - u_j^2/2),   M = diag(curvature + reg[i]),   u_j = p . other[j].
    # loss[i] = that objective; then `steps` of conjugate gradients, preconditioned by M, with V held fixed:
    #     A = M + sum_j (w_j - 1) * other[j] other[j]'.
    # V fixed makes the objective quadratic, and V at its best before the step makes it touch from above: it falls.
    # The last step is `relax` times as long as the best along its direction; short of twice, it falls all the same.
    width, kind = own.shape[1], own.dtype.type
    m, residual, direction, image = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(len(own)):
        mine = own[i]
        total = 0.0
        for k in range(width):
            # A column without curvature or penalty has no say, and must not divide by zero.
            m[k] = max(curvature[k] + reg[i], kind(1e-30))
            residual[k] = -m[k] * mine[k]
            total -= 0.5 * mine[k] * residual[k]
        first, last = indptr[i], indptr[i + 1]
        loss[i] = total + add_pulls(first, last, indices, target, weight, cap, has_cap, mine, other, residual)
        size = kind(0)
        for k in range(width):
            direction[k] = residual[k] / m[k]
            size += residual[k] * direction[k]
        for step in range(steps):
            is_last = step == steps - 1
            bend = kind(0)
            for k in range(width):
                image[k] = m[k] * direction[k]
                bend += image[k] * direction[k]
            for p in range(first, last):
                theirs = other[indices[p]]
                along = kind(0)
                for k in range(width):
                    along += direction[k] * theirs[k]
                extra = kind(weight[p] - 1) * along
                bend += extra * along
                if not is_last:
                    for k in range(width):
                        image[k] += extra * theirs[k]
            if not bend > 0 or not size > 0:
                break
            length = kind(relax) * size / bend if is_last else size / bend
            for k in range(width):
                mine[k] += length * direction[k]
            if is_last:
                break
            smaller = kind(0)
            for k in range(width):
                residual[k] -= length * image[k]
                smaller += residual[k] * residual[k] / m[k]
            ratio = smaller / size
            size = smaller
            for k in range(width):
                direction[k] = residual[k] / m[k] + ratio * direction[k]
