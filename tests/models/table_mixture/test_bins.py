"""Bins of noisy counts: atoms, equal parts, rare categories, missing values, laws of cells."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privem.models.table_mixture.bins import bin_columns, bins_for, smoothed


@dataclass(frozen=True)
class Kind:
    cells: int
    ordered: bool = True
    missing: bool = False


def one(kind, counts, deviation, coming, count=None):
    counts = np.asarray(counts, dtype=float)
    (found,) = bin_columns([kind], counts, deviation, count or counts.sum(), coming)
    return found


def test_bins_are_as_many_as_noise_bears():
    assert bins_for(32_561, 45.0) == 16
    assert bins_for(3_000, 45.0) == 5
    assert bins_for(10, 45.0) == 2
    assert bins_for(1e9, 1.0) == 32
    assert bins_for(0.0, 0.0) > 0
    # All tables of wide data can be held.
    assert 4_950 * 2 * (2.25 * bins_for(1e9, 1.0, 4_950 * 2)) ** 2 < 2**23


def test_equal_parts_and_atoms():
    rng = np.random.default_rng(0)
    counts = np.full(100, 100.0)
    counts[[0, 40]] = 8_000.0, 5_000.0
    found = one(Kind(100), counts + rng.normal(size=100), 1.0, 20.0)
    sizes = found.total(counts)
    assert found.widths[found.bin_of[[0, 40]]].tolist() == [1, 1]
    # What atoms leave is shared equally by as many bins as there would be without them.
    light = np.delete(sizes, found.bin_of[[0, 40]])
    assert len(light) == pytest.approx(bins_for(counts.sum(), 20.0), abs=2)
    assert np.median(light) == pytest.approx(9_800 / bins_for(counts.sum(), 20.0), rel=0.3)
    # Ordered, but for atoms.
    others = np.delete(found.bin_of, [0, 40])
    assert (np.diff(others) >= 0).all()


def test_no_bin_is_too_small_for_its_tables():
    counts = np.full(200, 10.0)
    counts[0] = 100_000.0
    found = one(Kind(200), counts, 1.0, 100.0)
    assert (found.total(counts)[1:-1] >= 300).all()


def test_rare_categories_share_a_bin():
    counts = [5_000.0, 20.0, 3_000.0, -30.0, 10.0]
    found = one(Kind(5, ordered=False), counts, 50.0, 50.0)
    assert found.bin_of.tolist() == [0, 2, 1, 2, 2]
    assert found.law[[1, 3, 4]] == pytest.approx(1 / 3)
    # One rare category alone has nobody to share with.
    assert one(Kind(3, ordered=False), [500.0, 400.0, 3.0], 50.0, 50.0).count == 3
    # Not even 200 common ones make 200 bins.
    assert one(Kind(200, ordered=False), np.full(200, 1e6), 1.0, 1.0).count == 65


def test_missing_is_a_bin_of_its_own():
    for ordered in (True, False):
        for gaps in (0.0, -20.0, 5_000.0):
            found = one(Kind(5, ordered, missing=True), [100.0, 90, 110, 95, gaps], 1.0, 500.0)
            assert found.bin_of[4] == found.count - 1
            assert found.widths[-1] == 1
    assert one(Kind(1, missing=True), [7.0], 1.0, 1.0).bin_of.tolist() == [0]


def test_noise_is_smoothed_and_spikes_stay():
    rng = np.random.default_rng(5)
    true = np.full(256, 30.0)
    true[[17, 99]] = 2_000.0, 900.0
    found = smoothed(true + 50 * rng.normal(size=256), 50.0)
    assert np.abs(found[[17, 99]] - true[[17, 99]]).max() < 250
    flat = np.delete(found, [17, 99])
    # Raw counts are off by 40 on average.
    assert np.abs(flat - 30).mean() < 10
    assert np.array_equal(smoothed(true, 0.0), true)


def test_round_numbers_stay_though_none_stands_out_alone():
    """Every fifth cell holds five times the mean, 2.4 deviations of the noise: too few for borders.

    Together they show that cells differ; where none does, nothing is made of noise.
    """
    rng = np.random.default_rng(0)
    heaped = np.where(np.arange(200) % 5 == 0, 100.0, 0.0)
    lost = []
    for true in (heaped, np.full(200, 20.0)):
        found = smoothed(true + 42 * rng.normal(size=200), 42.0)
        p, q = (each / each.sum() for each in (true, found))
        lost.append(np.sum(p * np.log(np.maximum(p, 1e-300) / q)))
    # A flat law would lose log 5 = 1.6 of the first.
    assert lost[0] < 0.9
    assert lost[1] < 0.05


numbers = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=50)
@given(
    counts=arrays(float, 30, elements=numbers),
    deviation=st.floats(0, 1e6),
    coming=st.floats(0, 1e6),
    count=st.floats(-10, 1e12),
)
def test_any_release_gives_bins_and_laws(counts, deviation, coming, count):
    kinds = [Kind(12), Kind(10, ordered=False, missing=True), Kind(7, missing=True), Kind(1)]
    for kind, found in zip(
        kinds, bin_columns(kinds, counts, deviation, count, coming), strict=True
    ):
        assert len(found.bin_of) == len(found.law) == kind.cells
        assert set(found.bin_of.tolist()) == set(range(found.count))
        assert (found.law > 0).all()
        assert found.total(found.law) == pytest.approx(1)
