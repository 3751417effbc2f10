"""Balls away from the origin: rounding was reckoned as if records were as small as the ball."""

from itertools import pairwise

import numpy as np
import pytest

from privem.blocks.bounded_sums import Cell
from privem.blocks.bounding import Clip
from privem.blocks.gradient import BoundedGradientQuery
from privem.blocks.region import Region
from privem.core import Block, Scratch
from privem.federation.wire.codec import BadMessage
from privem.federation.wire.queries import check_query
from privem.linalg import ravel
from privem.models.symmetric.query import DirectionsQuery, SquaresQuery, SymmetricGradient

D = 20
ORIGIN = Region.around_origin(5.0, D)


def far(cell=None):
    """A gradient whose sign hangs on the last bit of <b, x>, at a ball too small to matter."""
    rng = np.random.default_rng(52)
    centre, b = rng.uniform(0.5, 1, D), rng.uniform(-1, 1, D)
    b[-1] = -(b[:-1] @ centre[:-1]) / centre[-1]
    ball = Region(centre, np.full(D, 2.0**-80), np.ones(D), ball=True)
    return BoundedGradientQuery(
        SymmetricGradient(b * 2.0**-30, 2.0**-100), Clip(1.0), ball, cell=cell
    )


@pytest.mark.parametrize(
    "ball",
    [
        far().region,
        Region(np.full(D, 2.0**-300), np.ones(D), np.ones(D), ball=True),
        Region(np.zeros(D), np.linspace(1, 2, D), np.ones(D), ball=True),
    ],
    ids=["far", "hardly", "unequal"],
)
def test_a_ball_is_about_the_origin_and_round(ball):
    for region, sound in ((ORIGIN, True), (ball, False)):
        for query in (
            BoundedGradientQuery(SymmetricGradient(np.ones(D), 1.0), Clip(1.0), region),
            DirectionsQuery(region, 1.0),
            DirectionsQuery(region, 1.0, np.eye(D)),
            SquaresQuery(region, (5.0,)),
        ):
            if sound:
                check_query(query, D, True)
            else:
                with pytest.raises(BadMessage, match="own proof"):
                    check_query(query, D, True)


@pytest.mark.parametrize("cell", [None, Cell(0, 2)])
def test_wherever_a_ball_lies_its_rounding_is_charged(cell):
    """Outside a federation too: one record more moves the sum by no more than is charged."""
    query = far(cell)
    sums = [ravel(query(Block(np.zeros((n, D))), Scratch())) for n in range(60, 101)]
    moved = max(np.linalg.norm(one - two) for one, two in pairwise(sums))
    charged = query.groups("add-remove")[0].sensitivity + 2 * query.rounding(2.0**20)
    assert moved <= charged


def test_reach_covers_every_record_of_a_ball():
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = int(rng.integers(1, 6))
        ball = Region(rng.normal(size=d) * 3, rng.uniform(0.1, 2, d), np.ones(d), ball=True)
        rows = rng.normal(size=(50, d)) * 10
        inside = ball.to_data(ball.to_unit(rows, Scratch()))
        assert (np.linalg.norm(inside, axis=1) <= ball.radius).all()
    assert ORIGIN.radius == pytest.approx(5.0, rel=1e-9)
