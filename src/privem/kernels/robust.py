"""The smoothed truncation of Catoni and Giulini 2017, evaluated without losing digits.

Wang et al. 2023 use it (equations 9 to 12).

phi(x) = x - x^3/6 on [-sqrt 2, sqrt 2] and +-TOP outside, TOP = 2 sqrt(2)/3. Its mean over Gaussian
noise, E phi(a + bZ), has a closed form

    a (1 - b^2/2) - a^3/6 + correction(a, b)

whose terms cancel: it loses 1e-5 at a = 1e4 and returns 128 at a = 1e6. Three ways are used:

- the polynomial alone, where the truncation is more than 8.3 deviations away (the correction is
  then below 1e-16) and nothing cancels;
- the moments of a truncated Gaussian, where a and b are below 4 (terms below 40, so nothing worse
  than 1e-14 is lost);
- tails plus 64-point Gauss-Legendre over [-sqrt 2, sqrt 2], where b is larger: the density is flat
  there and the rule exact to 1e-15. Where b is small and a large, nothing is left but +-TOP.

Multiplicative noise (b = |a|/sqrt(beta)) makes it a function of a alone: :func:`robust_rows`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from ..linalg import Array, Scratch

TOP = 2 * math.sqrt(2) / 3
"""The largest value of phi."""
ERROR = 2.0**-40
"""No computed value is further than this from the exact one (tests: a third of it at most)."""

_EDGE = math.sqrt(2.0)
# Deviations beyond which the truncation is not felt: exp(-8.3^2/2) is 1e-15, and what it
# multiplies vanishes twice over at the edge.
_FAR = 8.3
_MODERATE = 4.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_POINTS = _EDGE * _NODES
_VALUES = _EDGE * _WEIGHTS * (_POINTS - _POINTS**3 / 6) / math.sqrt(2 * math.pi)
_CHUNK = 4096


def robust_bound(beta: float) -> float:
    """The least upper bound of E phi(a + a Z/sqrt(beta)) over a: TOP (2 Phi(sqrt(beta)) - 1).

    The mean is not decreasing in a: its derivative is E u phi'(a u), u normal about one; phi' is
    even and not negative, and u is likelier than -u. So the bound is the limit, where the sign of u
    decides. ``beta`` may be infinite: no smoothing.
    """
    return TOP * (1.0 - 2.0 * float(ndtr(-math.sqrt(beta))))


def smoothed_truncation(a: Array, b: Array) -> Array:
    """E phi(a + bZ), Z standard normal, elementwise; any finite a, any b >= 0.

    Examples
    --------
    >>> smoothed_truncation(np.array([0.1, 1e8, -3.0]), np.array([0.01, 5e7, 0.0])).round(6)
    array([ 0.099828,  0.899911, -0.942809])
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    size = np.abs(a).ravel()
    b = b.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        out = size * (1 - b * b / 2 - size * size / 6)
        felt = _EDGE - size <= _FAR * b
        over = felt & (size - _EDGE > _FAR * b)
        near = felt & ~over & (size <= _MODERATE) & (b <= _MODERATE)
    out[over] = TOP
    out[near] = _by_moments(size[near], b[near])
    rest = np.flatnonzero(felt & ~over & ~near)
    for at in range(0, len(rest), _CHUNK):
        part = rest[at : at + _CHUNK]
        out[part] = _by_quadrature(size[part], b[part])
    np.clip(out, -TOP, TOP, out=out)
    return np.copysign(out, a.ravel()).reshape(a.shape)


def _by_moments(a: Array, b: Array) -> Array:
    """Tails, plus the first and third moment of the Gaussian between the edges."""
    z_low, z_high = -_EDGE - a, _EDGE - a  # b times the edges of Z
    least = np.maximum(b, 1e-100)
    low, high = z_low / least, z_high / least
    below, above = ndtr(low), ndtr(-high)
    root = 1 / math.sqrt(2 * math.pi)
    at_low, at_high = root * np.exp(-low * low / 2), root * np.exp(-high * high / 2)
    inside = 1 - below - above
    # b^j E Z^j on [low, high]; b Z is finite at the edges, whatever b.
    b_first = b * (at_low - at_high)
    b2_second = b * (z_low * at_low - z_high * at_high) + b * b * inside
    b3_third = b * (z_low * z_low * at_low - z_high * z_high * at_high) + 2 * b * b * b_first
    cube = a**3 * inside + 3 * a * a * b_first + 3 * a * b2_second + b3_third
    return np.asarray(TOP * (above - below) + a * inside + b_first - cube / 6)


def _by_quadrature(a: Array, b: Array) -> Array:
    """Tails, plus the density times phi at 64 nodes between the edges."""
    tails = ndtr((a - _EDGE) / b) - ndtr((-_EDGE - a) / b)
    z = (_POINTS[:, None] - a) / b
    z *= z
    z *= -0.5
    np.exp(z, out=z)
    return np.asarray(TOP * tails + (_VALUES @ z) / b)


def robust_rows(values: Array, scale: float, beta: float, scratch: Scratch) -> Array:
    """``scale`` E phi(a (1 + Z/sqrt(beta))) with a = values/scale, in place.

    Values must be finite. Few are near the truncation at the usual scale, and only those pay for
    more than a cubic polynomial. ``beta`` may be infinite.
    """
    if not values.flags.c_contiguous:
        raise ValueError("values must be contiguous")
    flat = values.reshape(-1)
    curve = 1 / 6 + 0.5 / beta
    # The correction is felt from |a| (1 + 8.3/sqrt(beta)) >= sqrt 2 on.
    border = _EDGE / (1 + _FAR / math.sqrt(beta)) * scale
    work = scratch.take("robust", flat.shape)
    np.abs(flat, out=work)
    far = np.flatnonzero(work >= border)
    kept = flat[far]
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(flat, flat, out=work)
        work *= -curve / scale**2
        work += 1.0
        flat *= work
        a = np.clip(kept / scale, -1e300, 1e300)
    if len(far):
        flat[far] = scale * smoothed_truncation(a, np.abs(a) / math.sqrt(beta))
    top = scale * robust_bound(beta)
    np.clip(flat, -top, top, out=flat)
    return values
