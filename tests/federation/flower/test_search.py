"""The search for secrets finds each spelling of a planted number, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from .search import Search

WHOLE, REAL = 123456789012345, -317.20394857201934
SPELT = {
    "int64": np.array([WHOLE]).tobytes(),
    "int64, other end first": np.array([WHOLE], ">i8").tobytes(),
    "integer as double": np.array([float(WHOLE)]).tobytes(),
    "double": np.array([REAL]).tobytes(),
    "double, other end first": np.array([REAL], ">f8").tobytes(),
    "hexadecimal": np.array([REAL]).tobytes().hex().encode(),
    "decimal integer": b'{"n": %d}' % WHOLE,
    "decimal": b"sum -317.203948572019 of rows",
    "exponent": b"-3.1720394857201934e+02",
}


@pytest.mark.parametrize("how", SPELT)
def test_a_planted_number_is_found(how, tmp_path):
    search = Search([np.array([WHOLE, 5])], [np.array([REAL, 200.0])])
    assert len(search) == 2
    for before in (0, 3, 2**20 - 3):  # whatever its place, across chunks too
        path = tmp_path / f"{before}"
        path.write_bytes(b"x" * before + SPELT[how] + b" end")
        assert search.files([path]) == {path: 1}


def test_other_numbers_are_not():
    search = Search([np.array([WHOLE])], [np.array([REAL])])
    noise = np.random.default_rng(0).bytes(10**6)
    said = b'{"n": 1234567890123450, "x": -317.203948571, "y": -317.203948573019}'
    assert search.inside(noise + said) == 0
