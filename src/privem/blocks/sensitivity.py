"""Sensitivities of stacked moments, derived once for every private model.

A record contributes, for each component k, ``g_k (w0, w1 t_k u_k, w2 svec(u_k u_k'))`` with
responsibilities g >= 0 that sum to one, |u_k| <= r and 0 <= t_k <= 1. Write B = w0^2 + w1^2 r^2 +
w2^2 r^4. (A whitened record v is pulled to u = v min(1, r / |v|), and t = min(1, r / |v|): so t u =
s v and u u' = s v v' with one factor s = min(1, r^2 / |v|^2). Elsewhere t = 1.)

*Adding or removing a record* moves the sum by its contribution, whose squared norm is
sum_k g_k^2 (w0^2 + w1^2 |u_k|^2 + w2^2 |u_k|^4) <= B sum_k g_k^2 <= B, as |svec(u u')| = |u|^2.

*Replacing a record* moves it by f - f', with |f - f'|^2 = |f|^2 + |f'|^2 - 2 <f, f'> <= 2 B - 2 <f,
f'>, and <f, f'> = sum_k g_k g'_k (w0^2 + w1^2 t_k t'_k c_k + w2^2 c_k^2), where c_k = <u_k, u'_k>
lies in [-r^2, r^2]. Write h(c) = w0^2 + w1^2 c + w2^2 c^2. Where c_k < 0, t_k t'_k c_k >= c_k and
the bracket is at least h(c_k); elsewhere it is not negative. So |f - f'|^2 <= 2 B + 2 max(0, -min
h), the minimum over |c| <= r^2.

Covariance types other than full: *diag* keeps the diagonal entries of svec, a projection, which
brings no two sums further apart. *spherical* has w2 |u|^2 in place of w2 svec(u u'): the same norm,
and |u|^2 |u'|^2 >= c^2 in h. *tied* pools sum_k g_k svec(u_k u_k'): its norm is at most r^2, and
its inner product is sum_kl g_k g'_l c_kl^2 >= sum_k g_k g'_k c_kk^2. Each time the bounds above
hold unchanged.

*One factor per record* (tied and whitened, :mod:`privem.kernels.whitened`): a record contributes
``g_k (w0, w1 s v_k)`` and ``w2 sum_k g_k s svec(v_k v_k')``, 0 <= s <= 1, where not each |v_k| but
their mean is bounded: s Q <= r^2 with Q = sum_k g_k |v_k|^2. The norm of all sums is s (sum_k g_k^2
|v_k|^2)^(1/2) <= s sqrt(Q) <= r, that of the second moment at most s Q <= r^2, so |f|^2 <= B as
before. Replacing a record, three cases:

(a) w1^2 <= 2 w0 w2. With u_k = sqrt(s) v_k and c_k = <u_k, u'_k>, <f, f'> >= sum_k g_k g'_k (w0^2 +
w1^2 sqrt(s s') c_k + w2^2 c_k^2). Each bracket is at least w0^2 or h(c_k), and h is nowhere
negative. So |f - f'|^2 <= 2 B.

(b) w2 = 0 and w1 r <= w0. Scale to w0 = 1, w1 r = b <= 1; a_k = s |v_k| / r has sum_k g_k a_k^2 <=
1. Then |f - f'|^2 <= sum_k (g_k - g'_k)^2 + b^2 sum_k (g_k a_k + g'_k a'_k)^2, and by
Cauchy-Schwarz (g a + g' a')^2 <= (g + g') (g a^2 + g' a'^2): the second sum is at most 2 max_k (g_k
+ g'_k). Let p, p' be the shares at that maximum: the first sum is at most (p - p')^2 + (1 - p)^2 +
(1 - p')^2. That plus 2 b^2 (p + p') is convex in (p, p'), so largest where both are 0 or 1: 2, 2 +
2 b^2 or 4 b^2, none above 2 + 2 b^2 = 2 B.

(c) Otherwise |f - f'| <= |f| + |f'| <= 2 sqrt(B).

In each case the bound for a factor per component is no larger, so these serve for both.

*Released apart* (the papers' recipes), with u in the ball of radius r and neighbours as above:

========================  ===============  ==================================================
numbers                    add-remove       replace-one
========================  ===============  ==================================================
counts g                   L2 1, L1 1       L2 sqrt(2) as <g, g'> >= 0; L1 2
sum g_k u of one k         L2 r             L2 2 r (opposite records, both in k)
second g_k u u' of one k   L2 r^2           L2 sqrt(2) r^2, as <u u', v v'> = <u, v>^2 >= 0
diag g_k u^2 of one k      L2 r^2           L2 sqrt(2) r^2: entries are not negative
trace g_k |u|^2 of one k   r^2              r^2: both lie in [0, r^2]
========================  ===============  ==================================================

L1 norms of one record: |u|_1 <= sqrt(d) r; |svec(u u')|_1 = (1 - s) |u|^2 + s |u|_1^2 <= (1 - s + s
d) r^2 with s = sqrt(1/2); |u^2|_1 = |u|^2 <= r^2. Replacing at most doubles them. A pooled (tied)
second moment has the norms of one component's, as the responsibilities sum to one.

*Weights* in [0, cap] and persons, who count the average of their rows, make a contribution cap
times a convex combination of the vectors above and zero. A difference of two such is cap times a
convex combination of differences of single vectors (or of one and zero, which is the add-remove
case, never the larger): all bounds are multiplied by cap, and hold for persons as for records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Group
from ..linalg import Array
from . import conditions
from .region import Region

UP = 1 + 2.0**-40  # upward margin on every sensitivity


def moved(neighbours: str, added: float, replaced: float) -> float:
    """How far a record moves a sum: one that is added or removed, or one that is replaced."""
    moves = {"add-remove": added, "replace-one": replaced}
    if neighbours not in moves:
        raise ValueError(f"neighbours must be 'add-remove' or 'replace-one', got {neighbours!r}")
    return moves[neighbours]


def capped(weight: Array | None, cap: float, rows: int) -> Array | None:
    """What each record counts, within [0, cap]; NaN is 0 and no weights are ones, capped too."""
    if weight is None:
        return None if cap >= 1 else np.full(rows, cap)
    return np.fmin(np.fmax(weight, 0.0), cap)


def one_group(query: Any, name: str, neighbours: str, added: float, replaced: float) -> list[Group]:
    """All numbers of a query as one group.

    ``added`` and ``replaced``: how far one record of weight one moves their sum, in L2.
    """
    bound = moved(neighbours, added, replaced) * query.cap_weight * UP
    return [Group(name, slice(0, query.size), bound)]


@dataclass(frozen=True)
class MomentWeights:
    """Weights of count, sum and second moment in one release, and the radius they are for."""

    w0: float
    w1: float
    w2: float
    radius: float
    travels = ("w0", "w1", "w2", "radius")

    @classmethod
    def balanced(
        cls, d: int, radius: float, count: bool = True, diagonal: bool = False
    ) -> MomentWeights:
        """Weights that share the noise well between the three parts (design.md), scaled to B = 1.

        w_j^2 r^(2j) is proportional to sqrt(a_j) r^j with a = (d/4, d/2, d(d+1)/8), or d/4 for the
        last if it is a diagonal: what each part's noise costs the log-likelihood. w1 is held to
        w1^2 <= 2 w0 w2, which makes h above non-negative, so that replacing a record costs sqrt(2)
        times adding one.
        """
        a = (d / 4 if count else 0.0, d / 2, d / 4 if diagonal else d * (d + 1) / 8)
        shares = [math.sqrt(a_j) * radius**j for j, a_j in enumerate(a)]
        total = sum(shares)
        w0, w1, w2 = (math.sqrt(share / total) / radius**j for j, share in enumerate(shares))
        if count and w1 * w1 > 2 * w0 * w2:
            w0 = w1 * w1 / (2 * w2) * (1 + 2.0**-40)
        return cls(w0, w1, w2, radius)

    @property
    def bound(self) -> float:
        """B: the squared norm of one record's contribution is at most this."""
        r = self.radius
        return self.w0**2 + self.w1**2 * r**2 + self.w2**2 * r**4

    @classmethod
    def without_second(cls, radius: float) -> MomentWeights:
        """Of counts and sums alone, B = 1; as much weight on sums as case (b) above bears."""
        w0 = math.sqrt(0.5)
        return cls(w0, w0 / radius * (1 - 2.0**-40), 0.0, radius)

    @classmethod
    def with_square(cls, radius: float, share: float) -> MomentWeights:
        """The same with squared lengths, which have this share of B = 1."""
        rest = cls.without_second(radius)
        less = math.sqrt(1 - share)
        return cls(rest.w0 * less, rest.w1 * less, math.sqrt(share) / radius**2, radius)

    def l2(self, neighbours: str, shared: bool = False) -> float:
        """L2 sensitivity of the joint release, rounded up; ``shared``: one factor per record."""
        replaced = 2 * self.bound + 2 * max(0.0, -self._lowest())
        if shared:
            case_a = self.w1 * self.w1 <= 2 * self.w0 * self.w2
            case_b = self.w2 == 0 and self.w1 * self.radius <= self.w0
            replaced = (2 if case_a or case_b else 4) * self.bound
        return math.sqrt(moved(neighbours, self.bound, replaced)) * UP

    def _lowest(self) -> float:
        """Minimum of h(c) = w0^2 + w1^2 c + w2^2 c^2 over |c| <= r^2."""
        c = -(self.radius**2)
        if self.w2 > 0:
            c = max(c, -(self.w1**2) / (2 * self.w2**2))
        return self.w0**2 + self.w1**2 * c + self.w2**2 * c**2

    def check(self) -> None:
        """Powers and products of weights and radius are numbers too."""
        conditions.ordinary(self.w0, self.w1, self.w2, zero=True)
        conditions.ordinary(self.radius)


def check_bounded(
    region: Region, weights: MomentWeights, cap_weight: float, d: int, covered: bool = True
) -> None:
    """Region, weights and cap; records measured from its centre (``covered``) are in the radius."""
    region.check(d)
    weights.check()
    conditions.ordinary(cap_weight)
    conditions.need(not covered or weights.radius >= region.reach)


def groups_apart(
    releases: Sequence[tuple[str, int]],
    components: int,
    w: MomentWeights,
    cap_weight: float,
    shape: str,
    neighbours: str,
    d: int,
) -> list[Group]:
    """Counts, each component's sum and each second moment as groups of their own.

    ``releases``: the kind of noise and the number of numbers of each, in that order.
    """
    found, at = [], 0
    for index, (kind, size) in enumerate(releases):
        part = "count" if index == 0 else "total" if index <= components else "second"
        weight = {"count": w.w0, "total": w.w1, "second": w.w2}[part]
        bound = apart(part, kind, shape, neighbours, d, w.radius) * weight * cap_weight
        found.append(Group(f"{part} {index}", slice(at, at + size), bound, kind))
        at += size
    return found


def apart(part: str, kind: str, shape: str, neighbours: str, d: int, radius: float) -> float:
    """Sensitivity of counts, one sum or one second moment released apart, rounded up.

    Parameters
    ----------
    part : {"count", "total", "second"}
    kind : {"gaussian", "laplace"}
        L2 or L1.
    shape : {"full", "tied", "diag", "spherical"}
        Of the second moment.
    neighbours : {"add-remove", "replace-one"}
    d : int
    radius : float
    """
    replace = neighbours == "replace-one"
    l2 = kind == "gaussian"
    match part, shape:
        case "count", _:
            one, both = 1.0, math.sqrt(2.0)
        case "total", _:
            one, both = radius * (1.0 if l2 else math.sqrt(d)), 2.0
        case "second", "spherical":
            return radius**2 * UP
        case "second", "diag":
            one, both = radius**2, math.sqrt(2.0)
        case "second", _:
            half = math.sqrt(0.5)
            one, both = radius**2 * (1.0 if l2 else 1 - half + half * d), math.sqrt(2.0)
        case _:
            raise ValueError(f"unknown part {part!r}")
    return one * ((both if l2 else 2.0) if replace else 1.0) * UP
