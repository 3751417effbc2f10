"""Shared by all tests: reproducible hypothesis runs, and the folder of real data."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, settings

# The same examples every time: a test that fails today failed yesterday.
settings.register_profile(
    "privem",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("privem")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def _real(name: str) -> pl.DataFrame:
    folder = Path(os.environ.get("PRIVEM_DATA", ROOT.parent / "shared" / "data"))
    path = folder / name
    if not path.exists():
        pytest.skip(f"no {name} in {folder}: set PRIVEM_DATA to the folder of real data")
    return pl.read_csv(path, has_header=not name.startswith("lifesci"))


@pytest.fixture(scope="session")
def old_faithful() -> np.ndarray:
    """272 eruptions of a geyser: duration, waiting time."""
    return _real("old_faithful.csv").to_numpy().astype(float)


@pytest.fixture(scope="session")
def gvhd() -> np.ndarray:
    """15,892 cells of two patients: four markers."""
    return _real("GvHD_flow_cytometry.csv.gz").drop("patient").to_numpy().astype(float)


@pytest.fixture(scope="session")
def life_sciences() -> np.ndarray:
    """26,733 compounds: ten principal components; the label is dropped."""
    return _real("lifesci_ds1.10.csv.gz").to_numpy()[:, :10].astype(float)
