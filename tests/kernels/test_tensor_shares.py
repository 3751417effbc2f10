"""Shares of points are added up exactly, in however many pieces."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from privem.kernels import tensor_profiles  # noqa: E402
from privem.kernels.tensors import Work  # noqa: E402


@pytest.mark.parametrize("points", [5, 40])
@pytest.mark.parametrize("piece", [64, 333, 1000, 4096])
def test_pieces_do_not_matter(points, piece, monkeypatch):
    monkeypatch.setattr(tensor_profiles, "_MOST", piece)
    rng = np.random.default_rng(0)
    total = tensor_profiles.Shares(Work(torch.device("cpu"), torch.float64), points)
    expected = np.zeros(points)
    for b in (1000, 1, 333):
        below = rng.integers(0, points - 1, b)
        part = rng.integers(0, 2**20 + 1, b) / 2**20
        total.add(torch.tensor(below), torch.tensor(part))
        np.add.at(expected, below, 1 - part)
        np.add.at(expected, below + 1, part)
    assert np.array_equal(total.value(), expected)
