"""Clipped mixture statistics where all components share a covariance: what a private fit sums.

Records are whitened once, z = W y, and components are unit spheres about mu_k = W m_k. With q_k =
|z - mu_k|^2 and weights p_k that sum to one, responsibilities are ``g_k = p_k exp(-q_k / 2) / t``,
t being the sum of the numerators. A record counts less where it is unlikely, by ``s = min(1, r^2 /
F)`` with ``F = -2 log t``. As F is Q + 2 KL(g || p), where Q is the mean of q under g, s Q <= r^2:
one factor per record bounds both ``g_k s u_k`` and ``sum_k g_k s u_k u_k'`` (see
:mod:`privem.blocks.sensitivity`). It costs a logarithm per record where a factor per component
takes three passes over all of them.

Distances enter up to q = 1200: no maximum has to be found and subtracted before exponentials.
Further out F is raised by what the cap could hide, far^2 exp(-600) / t.
"""

from __future__ import annotations

import math

import numpy as np

from ..tree import Array
from .quadratic import Place, accumulate
from .scratch import Scratch, short_buffers

__all__ = ["PIECE", "pooled_sums", "pooled_tile_rows", "raised"]

# How many records one matrix product sums.
PIECE = 510
# Half the largest squared distance that counts: exp(-600) is 1e-261, far from subnormal numbers.
_DEEPEST = 600.0


def pooled_tile_rows(components: int, d: int) -> int:
    """Records per tile: whole pieces, as many as the cache holds."""
    return PIECE * int(np.clip(2**18 // ((components + 2 * d + 4) * PIECE), 1, 16))


def raised(far: float) -> float:
    """What is added to ``-log t``, times t; ``far`` is at least every distance."""
    return 0.5 * far**2 * math.exp(-_DEEPEST) * (1 + 2.0**-40)


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
            np.clip(share, -_DEEPEST, 0.0, out=share)
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
            accumulate(share, scaled, sums, PIECE)
            if second:
                z *= total
                accumulate(z, scaled[1 : d + 1], pooled, PIECE)
    sums *= weights[:, None]
    return sums[:, d + 1], sums[:, : d + 1], pooled
