"""Mixture statistics in each component's own coordinates, exact or clipped.

Per component k, with whitener W_k and mean m_k, a record lies at ``u = W_k (x - m_k)``.

*Exact.* Quadratic features about one origin (:mod:`privem.kernels.mixture`) lose ``(|mean|/sd)^2``
times the rounding unit. Where a component lies far from the origin, measured in its own standard
deviations, :func:`exact_sums` takes their place: it subtracts each component's mean first and sums
about those means. It is slower, and exact to the last digits.

*Clipped.* :func:`by_differences` gives the sums of ``g_k``, ``g_k s u`` and ``g_k s u u'`` with
``s = min(1, r^2 / |u|^2)``, as :func:`privem.kernels.mixture.by_products` does without forming u.

*Clipped, with a common covariance.* :func:`pooled_sums` whitens records once, z = W y, and
components are unit spheres about mu_k = W m_k. With q_k = |z - mu_k|^2 and weights p_k that sum to
one, responsibilities are ``g_k = p_k exp(-q_k / 2) / t``, t being the sum of the numerators. A
record counts less where it is unlikely, by ``s = min(1, r^2 / F)`` with ``F = -2 log t``. As F is
Q + 2 KL(g || p), where Q is the mean of q under g, s Q <= r^2: one factor per record bounds both
``g_k s u_k`` and ``sum_k g_k s u_k u_k'`` (see :mod:`privem.blocks.sensitivity`). It costs a
logarithm per record where a factor per component takes three passes over all of them. Distances
enter up to q = 1200: no maximum has to be found and subtracted before exponentials. Further out F
is raised by what the cap could hide, far^2 exp(-600) / t.
"""

from __future__ import annotations

import math

import numpy as np

from ..linalg import Array, Scratch, short_buffers, whiten
from .mixture import Place, accumulate, responsibilities, softmax

# One matrix product of :func:`pooled_sums` sums at most this many records.
POOLED_PIECE = 510
# Half the largest squared distance that counts there: exp(-600) is far from subnormal numbers.
DEEPEST = 600.0


@short_buffers()
def exact_log_joint(
    rows: Array, means: Array, whiteners: Array, constants: Array, scratch: Scratch
) -> Array:
    """Log joint densities (K, b): ``constants_k - |W_k (x - mean_k)|^2 / 2``."""
    x = scratch.take("x", rows.T.shape)
    x[:] = rows.T
    return _log_joint(x, means, whiteners, constants, scratch)


def _log_joint(
    x: Array, means: Array, whiteners: Array, constants: Array, scratch: Scratch
) -> Array:
    joint = scratch.take("log_joint", (len(means), x.shape[1]))
    for k, mean in enumerate(means):
        z = np.subtract(x, mean[:, None], out=scratch.take("z", x.shape))
        z = whiten(whiteners[k], z)
        np.einsum("ij,ij->j", z, z, out=joint[k])
    joint *= -0.5
    joint += constants[:, None]
    return joint


@short_buffers()
def exact_sums(
    rows: Array,
    means: Array,
    whiteners: Array,
    constants: Array,
    weight: Array | None,
    kind: str,
    scratch: Scratch,
) -> tuple[Array, Array, Array, float]:
    """Counts (K,), sums (K, d) and second moments about each mean, and the log-likelihood."""
    x = scratch.take("x", rows.T.shape)
    x[:] = rows.T
    joint = _log_joint(x, means, whiteners, constants, scratch)
    likelihood = softmax(joint, weight, scratch)
    count = joint.sum(axis=1)
    total, second = np.empty(means.shape), _no_second(kind, *means.shape)
    for k, mean in enumerate(means):
        z = np.subtract(x, mean[:, None], out=scratch.take("z", x.shape))
        total[k] = np.dot(z, joint[k])
        second[k] = _second(kind, z, joint[k])
    return count, total, second, likelihood


def _no_second(kind: str, components: int, d: int) -> Array:
    """Room for second moments: "full" (K, d, d), "square" the diagonals, "norm" their sums."""
    shape = {"full": (components, d, d), "square": (components, d), "norm": (components,)}
    return np.empty(shape[kind])


def _second(kind: str, x: Array, share: Array) -> Array:
    """The second moment of records (d, b), weighted; both arguments are overwritten."""
    if kind == "full":
        x *= np.sqrt(share, out=share)
        return np.asarray(np.dot(x, x.T))
    x *= x
    squares: Array = np.dot(x, share)
    return squares if kind == "square" else squares.sum()


def by_differences(
    means: Array,
    whiteners: Array,
    constants: Array,
    rows: Array,
    place: Place,
    radius: float,
    cap: float,
    weight: Array | None,
    kind: str,
    scratch: Scratch,
) -> tuple[Array, Array, Array]:
    """Sums of g (K,), of g s u (K, d) and of g s u u'.

    The last by ``kind``: ``"full"`` (K, d, d), ``"square"`` its diagonals (K, d), ``"norm"`` their
    sums (K,). Squared distances enter the responsibilities capped at ``cap``, so that rounding
    errors of far records stay small. ``whiteners``: (K, d, d), or (K, d) if diagonal.
    """
    components, d = means.shape
    total, second = np.empty((components, d)), _no_second(kind, components, d)
    x = scratch.take("x", (d, len(rows)))
    white = scratch.take("white", (components, d, len(rows)))
    joint = scratch.take("log_joint", (components, len(rows)))
    shrink = scratch.take("shrink", joint.shape)
    with short_buffers(), np.errstate(over="ignore", invalid="ignore"):
        place(rows, x)
        for k in range(components):
            np.subtract(x, means[k][:, None], out=white[k])
            whiten(whiteners[k], white[k])
            np.einsum("ij,ij->j", white[k], white[k], out=joint[k])
        np.clip(joint, radius**2, np.inf, out=shrink)
        np.divide(radius**2, shrink, out=shrink)
        np.clip(joint, 0.0, cap, out=joint)
        joint *= -0.5
        joint += constants[:, None]
        responsibilities(joint, weight, scratch)
        count = np.add.reduce(joint, axis=1)
        joint *= shrink
        for k in range(components):
            total[k] = np.dot(white[k], joint[k])
            second[k] = _second(kind, white[k], joint[k])
    return count, total, second


def pooled_tile_rows(components: int, d: int) -> int:
    """Records per tile: whole pieces, as many as the cache holds."""
    return POOLED_PIECE * int(np.clip(2**18 // ((components + 2 * d + 4) * POOLED_PIECE), 1, 16))


def raised(far: float) -> float:
    """What is added to ``-log t``, times t; ``far`` is at least every distance."""
    return 0.5 * far**2 * math.exp(-DEEPEST) * (1 + 2.0**-40)


def pooled_sums(
    means: Array,
    weights: Array,
    far: float,
    rows: Array,
    place: Place,
    radius: float,
    weight: Array | None,
    second: bool,
    scratch: Scratch,
) -> tuple[Array, Array, Array]:
    """Sums (K,) of g, (K, 1 + d) of g s (1, z) and, if ``second``, (d, d) of s z z'; else zeros.

    ``means`` (K, d): mu. ``weights`` (K,) sum to one. ``place`` lays records out as z.
    """
    components, d = means.shape
    size = min(pooled_tile_rows(components, d), len(rows))
    squares = np.einsum("ij,ij->i", means, means)
    linear = np.concatenate(
        [-0.5 * squares[:, None], means, np.full((components, 1), -0.5)], axis=1
    )
    half, lift = 0.5 * radius**2, raised(far)
    sums, pooled = np.zeros((components, d + 2)), np.zeros((d, d))
    b = 0
    with short_buffers(), np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), max(size, 1)):
            here = rows[start : start + size]
            if len(here) != b:
                b = len(here)
                phi = scratch.take("features", (d + 2, b))  # 1, z, |z|^2
                phi[0] = 1.0
                share = scratch.take("log_joint", (components, b))
                scaled = scratch.take("scaled", (d + 2, b))  # s / t, z s / t, 1 / t
                total, depth = scratch.take("total", (b,)), scratch.take("depth", (b,))
            z = phi[1 : d + 1]
            place(here, z)
            np.einsum("ij,ij->j", z, z, out=phi[d + 1])
            np.dot(linear, phi, out=share)  # -q / 2
            np.clip(share, -DEEPEST, 0.0, out=share)
            np.exp(share, out=share)
            np.dot(weights, share, out=total)
            np.divide(lift, total, out=depth)
            depth -= np.log(total, out=scaled[0])  # F / 2
            np.clip(depth, half, np.inf, out=depth)
            np.divide(half, depth, out=depth)  # s
            top = None if weight is None else weight[start : start + size]
            np.divide(1.0 if top is None else top, total, out=scaled[d + 1])
            np.multiply(depth, scaled[d + 1], out=scaled[0])
            np.multiply(z, scaled[0], out=scaled[1 : d + 1])
            accumulate(share, scaled, sums, POOLED_PIECE)
            if second:
                z *= total
                accumulate(z, scaled[1 : d + 1], pooled, POOLED_PIECE)
    sums *= weights[:, None]
    return sums[:, d + 1], sums[:, : d + 1], pooled
