"""Backgrounds: volumes, clamping, and densities that integrate to one."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from privem.blocks.conditions import Unsound
from privem.blocks.region import Background, Region
from privem.core import Scratch

REGIONS = {
    "interval": Region.box(np.array([-3.0]), np.array([5.0])),
    "box": Region.box(np.array([-4.0, -3.0]), np.array([3.0, 6.0])),
    "isotropic box": Region.box(np.array([-4.0, -3.0]), np.array([3.0, 6.0]), isotropic=True),
    "segment": Region.around_origin(3.5, 1),
    "disc": Region.around_origin(4.0, 2),
}
every_region = pytest.mark.parametrize("region", REGIONS.values(), ids=REGIONS)


def grid(region: Region, points: int = 1200) -> tuple[np.ndarray, np.ndarray, float]:
    """Cell centres of a box around a region, which of them are inside, and a cell's volume."""
    sides = [np.linspace(*side, 2 * points + 1) for side in np.transpose(region.sides)]
    X = np.stack(np.meshgrid(*(side[1::2] for side in sides)), axis=-1).reshape(-1, region.d)
    inside = np.linalg.norm(X / region.scale, axis=1) <= 1 if region.ball else np.ones(len(X), bool)
    return X, inside, math.prod(float(side[2] - side[0]) for side in sides)


@every_region
def test_a_density_with_a_background_integrates_to_one(region: Region) -> None:
    X, inside, cell = grid(region)
    normal = stats.multivariate_normal(np.full(region.d, 0.3), 0.1 * np.eye(region.d))
    for weight in (0.01, 0.6):
        background = Background(weight, region)
        density = np.exp(background.beneath(np.atleast_1d(normal.logpdf(X[inside]))))
        assert density.sum() * cell == pytest.approx(1.0, abs=2e-3)
        assert density.min() == pytest.approx(weight / math.exp(region.log_volume), rel=1e-3)


def test_volumes_in_many_dimensions_are_numbers() -> None:
    for region in (Region.around_origin(1e3, 1000), Region.box(np.zeros(1000), np.full(1000, 1e9))):
        assert math.isfinite(Background(1e-9, region).level)
    ball = Region.around_origin(3.0, 4)
    assert ball.log_volume == pytest.approx(math.log(math.pi**2 / 2 * 3.0**4))


values = st.one_of(st.floats(allow_nan=False), st.floats(-10, 10))


@every_region
@given(data=st.data())
def test_clamping_leaves_records_inside_alone_and_depends_on_them_only(
    region: Region, data: Any
) -> None:
    rows = data.draw(arrays(float, (5, region.d), elements=values))
    background = Background(0.5, region)
    clamped = background.clamped(rows, Scratch()).copy()
    low, high = region.sides
    assert (clamped >= low).all()
    assert (clamped <= high).all()
    if region.ball:
        assert (np.linalg.norm(clamped, axis=1) <= region.scale[0] * (1 + 1e-12)).all()
        still = np.linalg.norm(np.clip(rows, -1e9, 1e9), axis=1) < region.scale[0] * (1 - 1e-12)
    else:
        still = ((rows >= low) & (rows <= high)).all(axis=1)
    np.testing.assert_array_equal(clamped[still], rows[still])
    one = [background.clamped(row[None], Scratch())[0].copy() for row in rows]
    np.testing.assert_array_equal(np.stack(one), clamped)


@every_region
def test_draws_are_uniform(region: Region) -> None:
    """Kolmogorov and Smirnov's test on 4,000 draws, false alarm 1e-7 each."""
    X = region.draw(4000, np.random.RandomState(0))
    if region.ball:
        unit = (np.linalg.norm(X, axis=1) / region.scale[0]) ** region.d
        assert stats.kstest(unit, "uniform").pvalue > 1e-7
        assert stats.kstest(X[:, 0], -X[:, 0]).pvalue > 1e-7
    else:
        low, high = region.sides
        for side in ((X - low) / (high - low)).T:
            assert stats.kstest(side, "uniform").pvalue > 1e-7


@pytest.mark.parametrize("weight", [0.0, 1.0, -0.1, math.nan])
def test_a_party_refuses_weights_that_are_none(weight: float) -> None:
    with pytest.raises(Unsound):
        Background(weight, REGIONS["box"]).check(2)
    with pytest.raises(Unsound):
        Background(0.5, REGIONS["box"]).check(3)
    Background(0.5, REGIONS["box"]).check(2)
