"""Shorter ufunc buffers change how fast a pass is, and nothing else."""

import numpy as np
import pytest

from privem.kernels.scratch import short_buffers


def test_results_are_the_same_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1496, 10)).astype(np.float32)
    row, column = rng.standard_normal(1496), rng.standard_normal((10, 1))

    def work() -> list[np.ndarray]:
        x = np.subtract(rows.T, column)
        return [x, x * row, np.clip(x, -(column**2), column**2), x.sum(axis=0), x.sum(axis=1)]

    plain = work()
    with short_buffers():
        short = work()
    for a, b in zip(plain, short, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_setting_is_put_back() -> None:
    before = np.getbufsize()
    with short_buffers():
        assert np.getbufsize() < before
    assert np.getbufsize() == before
    with pytest.raises(ZeroDivisionError), short_buffers():
        raise ZeroDivisionError
    assert np.getbufsize() == before
