"""The five data sets, scaled by public bounds to the box [-1, 1]^d."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np

__all__ = ["DATA", "load"]

DATA = Path(os.environ.get("PRIVEM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def load(name: str, low: list[float], high: list[float]) -> np.ndarray:
    """Records of one data set in the box; what lies outside the public bounds is clipped."""
    rows = _READERS[name]()
    middle, half = (np.add(low, high) / 2, np.subtract(high, low) / 2)
    return np.clip((rows - middle) / half, -1.0, 1.0)


def _sipu(name: str) -> np.ndarray:
    return np.load(DATA / "sipu_benchmarks.npz")[name].astype(float)


def _gowalla() -> np.ndarray:
    return np.load(DATA / "gowalla_locations.npz")["rand_users_union_latlon"].astype(float)


def _life_sciences() -> np.ndarray:
    with gzip.open(DATA / "lifesci_ds1.10.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",")[:, :10]


def _adult() -> np.ndarray:
    """The six numeric columns of both parts: age, fnlwgt, education, gain, loss, hours."""
    rows = []
    for part in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(DATA / part, "rt") as file:
            fields = [line.split(",") for line in file]
        rows += [[float(f[i]) for i in (0, 2, 4, 10, 11, 12)] for f in fields if len(f) == 15]
    return np.asarray(rows)


_READERS = {
    "S1": lambda: _sipu("s1"),
    "birch1": lambda: _sipu("birch1"),
    "Gowalla sample": _gowalla,
    "Life Sciences": _life_sciences,
    "Adult-num": _adult,
}
