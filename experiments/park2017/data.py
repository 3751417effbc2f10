"""Data sets and their public bounds."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

from privem.datasets import (
    DataNotFound,
    load_adult,
    load_gowalla,
    load_life_sciences,
    load_olivetti,
)

Array = np.ndarray
# Stroke (Letham et al. 2014) cannot be had: 100 principal components of 50,345 patients.
STROKE = (50_345, 100, 10)


def three(n: int = 20_000) -> Array:
    """Three isotropic Gaussians in the plane, inside the unit ball (Park et al. 2016)."""
    rng = np.random.default_rng(3)
    means = np.array([[0.5, 0.0], [-0.3, 0.4], [-0.2, -0.4]])
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return means[labels] + 0.12 * rng.normal(size=(n, 2))


@cache
def stroke() -> Array:
    """A stand-in for Stroke, of norm at most one: ten groups of patients in 100 components.

    The variance of component j falls as 1/j, within and between groups, and some patients have far
    more diagnoses and medicines than others: deviations from the middle are multiplied by
    log-normal numbers. The radius is public, and 0.1% of the records are pulled onto it.
    """
    n, d, k = STROKE
    rng = np.random.default_rng(10)
    spectrum = 1 / np.sqrt(np.arange(1, d + 1))
    centres = 1.5 * rng.normal(size=(k, d)) * spectrum
    widths = rng.uniform(0.4, 1.2, size=(k, d)) * spectrum
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))
    X = centres[labels] + widths[labels] * rng.normal(size=(n, d))
    X *= np.exp(0.3 * rng.normal(size=(n, 1)))
    X -= X.mean(axis=0)
    norms = np.linalg.norm(X, axis=1)
    radius = float(np.quantile(norms, 0.999))
    return X / np.maximum(norms, radius)[:, None]


def life() -> Array:
    """Ten principal components of 26,733 compounds; radius 14.41."""
    return load_life_sciences() / 14.41


def gowalla() -> Array:
    """Latitude and longitude of 101,920 places in the box [-1, 1]^2."""
    return load_gowalla() / [90.0, 180.0]


def faces(side: int) -> Array:
    """400 images of side x side pixels in [0, 1]: means over blocks."""
    images, block = load_olivetti(), 64 // side
    return images.reshape(400, side, block, side, block).mean(axis=(2, 4)).reshape(400, -1)


def _sipu(name: str) -> Array:
    path = Path(os.environ.get("PRIVEM_DATA", "")) / "sipu_benchmarks.npz"
    if not path.is_file():
        raise DataNotFound(
            "the SIPU benchmarks (Franti and Sieranoja 2018) are at https://cs.joensuu.fi/sipu/"
            "datasets: s1 as an array in sipu_benchmarks.npz in the folder of PRIVEM_DATA"
        )
    with np.load(path) as file:
        return file[name].astype(float)


def _adult() -> Array:
    names = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    return load_adult(download=False).select(names).to_numpy().astype(float)


# Records, number of clusters, and public bounds: limits of the coordinates or plain facts about the
# columns, rounded; none was read off the data to be tight.
CLUSTERED = {
    "S1": (lambda: _sipu("s1"), 15, [0, 0], [1e6, 1e6]),
    "Gowalla sample": (load_gowalla, 5, [-90, -180], [90, 180]),
    "Life Sciences": (load_life_sciences, 3, [-15, *[-8] * 9], [1, *[8] * 9]),
    "Adult-num": (_adult, 5, [0, 0, 1, 0, 0, 0], [100, 1.5e6, 16, 1e5, 5e3, 100]),
}


def clustered(name: str) -> tuple[Array, int]:
    """Records in the box [-1, 1]^d, and how many clusters; what lies outside is clipped."""
    rows, k, low, high = CLUSTERED[name]
    middle, half = np.add(low, high) / 2, np.subtract(high, low) / 2
    return np.clip((rows() - middle) / half, -1.0, 1.0), k
