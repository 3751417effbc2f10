"""Shared by all tests: reproducible hypothesis runs, and the folder of real data."""

import os
import shutil
from contextlib import nullcontext
from ctypes.util import find_library
from importlib.util import find_spec
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

# Nobody's budget is spent by tests.
os.environ.pop("PRIVEM_LEDGER", None)
os.environ["PRIVEM_CONFIG"] = ""  # a privem.toml above the tests is somebody's own
# Nor does anything that somebody has set for their own work change what tests see.
_OURS = ("PRIVEM_DEBUG", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR")
for _name in (*_OURS, *(name for name in os.environ if name.startswith("PG"))):
    os.environ.pop(_name, None)

ROOT = Path(__file__).resolve().parents[1]
# The browser that tests of pages open, and what checks how readable they are.
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(os.environ.get("PRIVEM_AXE", ROOT / ".venv/node_modules/axe-core/axe.min.js"))


def postgresql_programs() -> Path | None:
    """The folder of PostgreSQL's programs, if it is installed; Debian has it outside of PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(each.parent for each in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1] if folders else None


def pytest_collection_modifyitems(items) -> None:
    """The example of rows on an accelerator needs torch, which is no part of privem[all]."""
    if find_spec("torch") is None:
        for item in items:
            if item.name == "privem.data.device.rows_on":
                item.add_marker(pytest.mark.skip(reason="torch is not installed"))


def pytest_terminal_summary(terminalreporter) -> None:
    if postgresql_programs() is None:
        terminalreporter.line("PostgreSQL is not installed: tests of ledgers in it were skipped")
    if find_spec("torch") is None:
        terminalreporter.line("torch is not installed: tests of rows in tensors were skipped")
    elif find_library("cuda") is None:  # the driver's; torch itself takes seconds to ask
        terminalreporter.line("there is no CUDA device: tensors were summed by torch on the host")
    if CHROMIUM is None:
        terminalreporter.line("Chromium is not installed: tests of pages in it were skipped")
    elif not AXE.exists():
        terminalreporter.line("axe-core is not installed: pages were not checked by it")


@pytest.fixture(autouse=True)
def _no_forecasts(request, monkeypatch) -> None:
    """Tests of the command line fit tiny data: the forecast would refuse them.

    Those of forecasts themselves say ``FORECASTS = True``.
    """
    module = request.module
    if hasattr(module, "CliRunner") and not getattr(module, "FORECASTS", False):
        from privem.cli.planning import Foresight

        monkeypatch.setattr(Foresight, "watching", lambda *arguments: nullcontext())


@pytest.fixture
def seeded(monkeypatch) -> None:
    """All noise from one seed: a test whose outcome depends on noise always comes out the same."""
    generator, real, owner = np.random.default_rng(20240607), os.urandom, os.getpid()
    # A forked child goes its own way, as with the operating system's bytes.
    monkeypatch.setattr(
        os, "urandom", lambda n: generator.bytes(n) if os.getpid() == owner else real(n)
    )


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def postgresql_folder() -> Path:
    """PostgreSQL's programs."""
    found = postgresql_programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    return found


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
