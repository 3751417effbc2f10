"""k-means labels: nothing may depend on where in a block a record stands."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Block, Scratch
from privem.models.kmeans.query import BoundedClusterQuery


def query_of(d: int, k: int, rng: np.random.Generator, ball: bool) -> BoundedClusterQuery:
    region = (
        Region.around_origin(2.0, d)
        if ball
        else Region.box(np.full(d, -1.0), np.linspace(1, 3, d), isotropic=True)
    )
    r = region.reach
    centres = rng.uniform(-1, 1, (k, d))
    return BoundedClusterQuery(centres, region, MomentWeights(1.0, 1 / r, 0.0, r), 1.0, "joint")


def borders(query: BoundedClusterQuery, n: int, rng: np.random.Generator) -> np.ndarray:
    """Records between centres, to the last bit, and outside the region."""
    c = query.lattice_centres
    a, b = c[rng.integers(len(c), size=n)], c[rng.integers(len(c), size=n)]
    unit = (a + b) / 2
    side = rng.standard_normal(unit.shape) * rng.choice([0, 1e-16, 1e-8, 0.3, 5], (n, 1))
    return query.region.to_data(unit + side)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    d=st.sampled_from([1, 2, 3, 7, 16, 50]),
    k=st.integers(2, 9),
    ball=st.booleans(),
)
def test_counts_do_not_depend_on_order_or_blocks(seed: int, d: int, k: int, ball: bool) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(d, k, rng, ball)
    X = borders(query, 120, rng)
    whole = query(Block(X), Scratch()).count
    assert whole.sum() == len(X)
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(query(Block(X[order]), Scratch()).count, whole)
    scratch = Scratch()
    cuts = np.sort(rng.choice(len(X), 5, replace=False))
    parts = [query(Block(part), scratch).count for part in np.split(X, cuts)]
    np.testing.assert_array_equal(np.sum(parts, axis=0), whole)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), d=st.sampled_from([1, 2, 5, 20]), ball=st.booleans())
def test_labels_are_those_of_exact_arithmetic(seed: int, d: int, ball: bool) -> None:
    rng = np.random.default_rng(seed)
    query = query_of(d, 4, rng, ball)
    X = borders(query, 25, rng)
    step = query.step
    y = np.trunc(query.region.to_unit(X, Scratch()) / step) * step
    centres = [[Fraction(v) for v in row] for row in query.lattice_centres.tolist()]
    counts = [0] * 4
    for row in y.tolist():
        point = [Fraction(v) for v in row]
        gaps = [sum((a - b) ** 2 for a, b in zip(point, c, strict=True)) for c in centres]
        counts[gaps.index(min(gaps))] += 1
    np.testing.assert_array_equal(query(Block(X), Scratch()).count, counts)
