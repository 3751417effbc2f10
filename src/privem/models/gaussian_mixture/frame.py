"""One private Gaussian of all records: the frame of every private fit, or all of it.

1. *Columns* (``"frame 1"``): where each column lies, from noisy profiles, whatever the width of
   the bounds (:mod:`privem.blocks.profile`).
2. *A look* (``"frame 2"``): mean and second moment in these coordinates (:mod:`.known`).
3. *Lengths* (``"frame 3"``): how far records lie from the middle of that, heavy tails and outliers
   included, and so how large variances are in all (:class:`.known.Radii`).

That is a frame for others. :meth:`PrivateGaussian.refine` goes on to the Gaussian itself: a few
more looks, which clip records at a radius that is the best bargain between the noise, which grows
with its square, and what is lost beyond it. Both are known beforehand, from the size of the noise
and from the lengths. What a clip takes off all variances alike is put back.

Where only variances are asked for (a diag or spherical mixture of many columns), covariances are
diagonals throughout: 2 d numbers are released instead of d^2/2, by the same query with another
covariance type and under the same bound (:mod:`privem.blocks.sensitivity`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...blocks import conditions
from ...blocks.profile import ColumnsQuery, ProfileQuery, columns_size, read_columns
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...blocks.shrinkage import clip_radius, consistency, operator_noise
from ...budget import Part
from ...core import Block, Release, Scratch, Stage
from ...ground import Ground
from ...kernels.mixture import differences_block_rows
from ...linalg import Array, gamma, smat, whiten
from ...run import held
from .known import LENGTHS, MOST_LENGTHS, Known, Look, Radii
from .model import Mixture
from .query import BoundedQuery, BoundedSums
from .rounding import whitened_lengths

# Up to so many columns the frame of a diag or spherical mixture is a full covariance: see
# :mod:`privem.models.kmeans.private_plan`.
_MOST_TURNED = 256
# Of what is left of a budget.
_SHARES = (0.05, 0.07, 0.06)
# Columns get more where the noise on each number of their profiles would be more than this part of
# all records; then next to nothing else can be seen either. At most half of what is left for later,
# whether a mixture is asked for or not.
_COLUMN_NOISE, _MOST_COLUMNS, _LATER = 0.06, 0.5, ("em", "grid", "contest")
# Relative noise of a covariance that costs less than clipping heavy tails would.
_TOLERATED = 0.1
# Looks at one Gaussian. Several, as each has the coordinates of the last. More gain no more, unless
# the frame may be off by more nats than this: no look narrows a direction further than its noise.
LOOKS, _MORE_LOOKS, _BLURRED = 3, 6, 0.5
# Clip radii tried, squared, over the least.
_RADII = 2.0 ** np.arange(16)
# What a clip takes off cannot be put back where it is not in proportion: so much of it is lost.
_LOST = 0.3
# Variances of a covariance's entries before looking, off the diagonal and on it.
_CORRELATED, _VARIED = 0.1, 1.0


@dataclass(frozen=True)
class RadialQuery(ProfileQuery):
    """The profile of squared whitened lengths over the number of columns.

    A record's value is v = q/d, where q = |W (y - m)|^2 is the squared length of the record, pulled
    into the region, in coordinates whitened by a public mean m and covariance (W'W is its inverse).
    Sensitivity and rounding of the profile: :mod:`privem.blocks.profile`.

    Parameters
    ----------
    mixture : Mixture
        Of one component, in unit coordinates.
    region : Region
        Where records are pulled to first.
    grid : array of shape (J + 1,)
        Increasing.
    cap_weight : float
    """

    mixture: Mixture
    region: Region
    grid: Array
    cap_weight: float = 1.0
    travels = ("mixture", "region", "grid", "cap_weight")

    @classmethod
    def all_of(cls, mixture: Mixture, region: Region, cap_weight: float) -> RadialQuery:
        """Over a grid that reaches as far as any record of the region."""
        far = sum(float(part[0]) for part in whitened_lengths(mixture, region)) ** 2 / region.d
        points = list(LENGTHS)
        while points[-1] < far and len(points) < MOST_LENGTHS:
            points.append(2 * points[-1])
        return cls(mixture, region, np.array(points), cap_weight)

    @property
    def block_rows(self) -> int:
        """Rows per call."""
        return differences_block_rows(self.region.d)

    def values(self, block: Block, scratch: Scratch) -> Array:
        """Squared whitened lengths over d."""
        y = self.region.to_unit(block.X, scratch).T
        y -= self.mixture.means[0][:, None]
        z = whiten(self.mixture.whiteners[0], y)
        return np.asarray(np.einsum("ij,ij->j", z, z) / len(z))

    @property
    def value_error(self) -> Array:
        """Of a product of matrices and a sum of squares: ``docs/proofs/profile.md``, section 4."""
        d = self.region.d
        far = sum(float(part[0]) for part in whitened_lengths(self.mixture, self.region))
        shift = gamma(d + 4) * far / math.sqrt(d)
        if not shift <= 0.4 * math.sqrt(self.grid[-1]):
            return np.full(len(self.grid) - 1, math.inf)
        root = np.sqrt(np.append(self.grid[1:-1], 2 * self.grid[-1]))
        return np.asarray(shift * (2 * root + shift) + gamma(d + 8) * (root + shift) ** 2)

    def check(self, d: int, private: bool) -> None:
        """Any one Gaussian: whatever it is, a record adds hats that sum to one."""
        self.mixture.check(d)
        conditions.need(len(self.mixture.means) == 1)
        self.region.check(d)
        self.check_profile()
        conditions.need(self.grid[0] >= 0)


def most_radii() -> int:
    """How many numbers a profile has at most."""
    return MOST_LENGTHS


def only_variances(covariance_type: str, d: int) -> bool:
    """Whether the frame of such a mixture is diagonal."""
    return covariance_type in ("diag", "spherical") and d > _MOST_TURNED


def frame_size(d: int, diagonal: bool) -> int:
    """How many numbers a look has."""
    return 1 + d + (d if diagonal else d * (d + 1) // 2)


def frame_parts(left: float, shares: Sequence[float], sizes: Sequence[int]) -> list[Part]:
    """The parts ``"frame 1"``, ``"frame 2"``, ... of what is left of a budget."""
    return [
        Part(f"frame {i}", left * share, [("gaussian", size)])
        for i, (share, size) in enumerate(zip(shares, sizes, strict=True), start=1)
    ]


def gaussian_parts(left: float, d: int, diagonal: bool = False) -> list[Part]:
    """The parts that :meth:`PrivateGaussian.stages` spends, of what is left of a budget."""
    return frame_parts(left, _SHARES, (columns_size(d), frame_size(d, diagonal), most_radii()))


def for_columns(ground: Ground) -> Ground:
    """Shares as the number of records asks for: with few of them more for columns.

    To be called before anything but count and bounds is spent, where shares may change at all.
    """
    allowance = ground.allowance
    if not allowance.adaptive:
        return ground
    parts = {part.name: part for part in allowance.parts}
    first, em = parts["frame 1"], parts["em"]
    noise = ColumnsQuery(ground.region, ground.cap_weight).groups(allowance.neighbours)[0]
    wanted = (noise.sensitivity * allowance.base / (_COLUMN_NOISE * ground.count)) ** 2
    later = sum(parts[name].share for name in _LATER if name in parts)
    more = float(np.clip(wanted - first.share, 0.0, _MOST_COLUMNS * later))
    new = [replace(first, share=first.share + more), replace(em, share=em.share - more)]
    return replace(ground, allowance=allowance.reshared(new))


@dataclass(frozen=True)
class PrivateGaussian:
    """Mean and covariance in unit coordinates.

    Parameters
    ----------
    ground : Ground
        Region, number of records, and an allowance with the parts of :func:`gaussian_parts`.
    diagonal : bool
        The covariance is its diagonal, (d,).
    background : bool
        In the end there will be a uniform background: :meth:`refine` is about those records alone
        that it does not explain better.
    """

    ground: Ground
    diagonal: bool = False
    background: bool = False

    def stages(self) -> Generator[Stage, Release[Any], Known]:
        """Generate the stages of a frame."""
        known = yield from self._columns()
        known = yield from self._look("frame 2", known, self._radius("frame 2"))
        return (yield from self._lengths(known))

    def blurred(self, known: Known) -> bool:
        """Whether what is known asks for a closer look, and shares may change for it."""
        return self.ground.allowance.adaptive and known.loss > _BLURRED

    def looks(self, known: Known) -> int:
        """How many looks to take with the whole of the part ``"em"``."""
        return held(lambda: _MORE_LOOKS if self.blurred(known) else LOOKS)

    def refine(
        self, known: Known, releases: float = 1, looks: int = LOOKS
    ) -> Generator[Stage, Release[Any], Known]:
        """So many more looks, with the budget of the part ``"em"`` or one of so many parts of it.

        Where shares are fixed beforehand: with ``looks`` of as many releases as that part has.
        """
        if self.background:
            known = held(partial(self._above, known))
        radius = held(partial(self._bargain, known, self._multiplier("em", releases)))
        for _ in range(looks):
            known = yield from self._look("em", known, radius, releases * looks)
        return known

    @property
    def loss(self) -> float:
        """How many nats noise costs a record where one look has all of the part ``"em"``."""
        d = self.ground.region.d
        first, second = self._noise(clip_radius(d), self._multiplier("em", 1))
        return d / 2 * first**2 + frame_size(d, self.diagonal) / 4 * second**2

    def told(self, known: Known, mean: Array, covariance: Array, releases: float) -> Known:
        """What is known once EM has found mean and covariance with one of so many parts of em.

        As well as a look with that budget would have found them.
        """
        r, multiplier = clip_radius(self.ground.region.d), self._multiplier("em", releases)
        first, second = self._noise(r, multiplier)
        return known.told(mean, covariance, first**2, second**2)

    def _columns(self) -> Generator[Stage, Release[Any], Known]:
        """Means and variances of columns."""
        ground, region = self.ground, self.ground.region
        release = yield ground.stage(ColumnsQuery(region, ground.cap_weight), "frame 1")
        counts, doubt = release.statistics.counts, self._count_noise
        bulk = read_columns(counts, release.spread, ground.count, doubt)
        unit = np.where(region.limit > 0, region.limit, 1.0)
        mean, variance = region.inside((unit * bulk.mean)[None])[0], unit**2 * bulk.variance
        mean_doubt = unit**2 * bulk.mean_doubt
        return Known.of_columns(mean, variance, mean_doubt, bulk.doubt, self.diagonal)

    def _lengths(self, known: Known) -> Generator[Stage, Release[Any], Known]:
        """All variances together, and what there is beyond any radius."""
        ground, d = self.ground, self.ground.region.d
        asked = partial(RadialQuery.all_of, known.mixture, ground.region, ground.cap_weight)
        query = held(asked)  # its grid depends on what is known
        release = yield ground.stage(query, "frame 3")
        counts, count = release.statistics.counts, ground.count
        radii = Radii.read(d, query.grid, counts, release.spread, count, self._count_noise)
        return known.sized(radii)

    def _above(self, known: Known) -> Known:
        """Of those records that a background does not explain better."""
        region, radii = self.ground.region, known.radii
        assert radii is not None
        return known.sized(radii, radii.above(region.d, known.height(region)))

    @property
    def _count_noise(self) -> float:
        """Deviation of the noise on the number of records."""
        ground = self.ground
        if ground.fixed_count:
            return 0.0
        return ground.allowance.multiplier("count") * ground.cap_weight

    def _multiplier(self, part: str, releases: float | None = None) -> float:
        return self.ground.allowance.multiplier(part, releases) * self.ground.cap_weight

    def _noise(self, radius: float, multiplier: float) -> tuple[float, float]:
        """Of a look: on an entry of the mean, and on an svec entry of the second moment."""
        d, neighbours = self.ground.region.d, self.ground.allowance.neighbours
        w = MomentWeights.balanced(d, radius, count=False, diagonal=self.diagonal)
        noise = w.l2(neighbours) * multiplier / self.ground.count
        return noise / w.w1, noise / w.w2

    def _radius(self, part: str) -> float:
        """As wide as the noise allows: real tails are heavier than a Gaussian's."""
        d = self.ground.region.d
        _, entry = self._noise(clip_radius(d), self._multiplier(part))
        noise = entry if self.diagonal else float(operator_noise(d, entry))
        return clip_radius(d, noise=noise, tolerated=_TOLERATED)

    def _bargain(self, known: Known, multiplier: float) -> float:
        """The radius at which noise and what is lost beyond cost least, in nats."""
        d, owned = self.ground.region.d, known.owned or known.radii
        assert owned is not None
        pairs, level = 0 if self.diagonal else d * (d - 1) / 2, owned.level

        def cost(radius: float) -> float:
            noise = self._noise(radius, multiplier)[1] ** 2
            inside, unsure = owned.within(radius**2 / d)
            # What is drawn to a guess is off by no more than the guess.
            noisy = pairs * noise / (1 + noise / _CORRELATED) + d * noise / (1 + noise / _VARIED)
            kept, doubt = inside / level, (unsure * level / inside) ** 2
            # Of other records, those that are not clipped away.
            others = max(known.kept(radius**2 / d) / kept, 1.0)
            off = [1 / x - 1 + math.log(x) for x in (kept, 1 / others)]
            return noisy / 4 + d / 2 * _LOST * sum(off) + d / 4 * doubt / (1 + doubt)

        return min((float(r) for r in clip_radius(d) * np.sqrt(_RADII)), key=cost)

    def _look(
        self, part: str, known: Known, r: float, releases: float | None = None
    ) -> Generator[Stage, Release[Any], Known]:
        d = self.ground.region.d
        w = MomentWeights.balanced(d, r, count=False, diagonal=self.diagonal)
        look = yield from look_at(self.ground, part, known.mixture, w, releases)
        kept = consistency(d, r) if known.radii is None else known.kept(r * r / d)
        return known.after(look, kept, self.ground.region)


def look_at(
    ground: Ground, part: str, mixture: Mixture, w: MomentWeights, releases: float | None = None
) -> Generator[Stage, Release[Any], Look]:
    """Mean and second moment in the coordinates of a mixture of one component."""
    query = BoundedQuery(mixture, ground.region, w, "whitened", ground.rows, ground.cap_weight)
    release = yield Stage(query, ground.noise(part, releases), part)
    sums: BoundedSums = release.statistics
    first, squared = w.w1 * ground.count, w.w2 * ground.count
    second = sums.second[0] / squared
    if mixture.covariance_type == "full":
        second = smat(second, ground.region.d)
    noise = release.spread
    # What was asked, if this is a fit played again: not quite what would be asked now.
    asked: BoundedQuery = release.query
    return Look(asked.mixture, sums.total[0] / first, second, noise / first, noise / squared)
