"""Where dask computes partitions."""

import pytest


@pytest.fixture(scope="module")
def two():
    """Two workers of one thread."""
    from .workers import started  # needs distributed, which other tests of this folder do not

    with started(2) as both:
        yield both


@pytest.fixture
def here():
    """No cluster: partitions are summed one after another by the driver."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield
