"""Another kind of rows: they live elsewhere, give sums only, and one file registers them."""

from multiprocessing import get_context

import numpy as np
import pytest

from privem import GaussianMixture, KMeans, private_mean
from privem.data import ArrayRows, LocalSource, Table, register, table


def serve(pipe, rows):
    """The other process: it makes its rows up, and sends sums."""
    rng = np.random.default_rng(0)
    centres = np.array([[-2.0, 0.0], [2.0, 1.0]])
    X = centres[rng.integers(2, size=rows)] + 0.5 * rng.normal(size=(rows, 2))
    source = LocalSource(ArrayRows(X), n_jobs=1)
    for query, private in iter(pipe.recv, None):
        pipe.send(source.total(query, private))


class Elsewhere:
    """Rows of another process: a source, whose columns are known."""

    n_features, names = 2, ("height", "weight")

    def __init__(self, pipe):
        self.pipe = pipe

    def release(self, stage):
        self.pipe.send((stage.query, stage.noise.private))
        return stage.noise.release(stage.query, self.pipe.recv())


def open_elsewhere(X, y, weight, groups, policy):
    return Table(X, names=X.names, elsewhere=X)


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_kinds", list(table._kinds))
        register(lambda X: isinstance(X, Elsewhere), open_elsewhere)
        yield from started()


def started():
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, 4000))
    process.start()
    yield Elsewhere(here)
    here.send(None)
    process.join(20)


def test_exact_and_private_fits_ask_for_sums_only(rows):
    exact = GaussianMixture(2, epsilon=None, random_state=0).fit(rows)
    assert exact.converged_
    assert exact.feature_names_in_.tolist() == ["height", "weight"]
    order = np.argsort(exact.means_[:, 0])
    np.testing.assert_allclose(exact.means_[order], [[-2, 0], [2, 1]], atol=0.1)
    for given in ({"bounds": (-9, 9)}, {}):  # and bounds found by counting on pairs of records
        private = GaussianMixture(2, epsilon=3.0, random_state=0, **given).fit(rows)
        assert private.privacy_.unit == "record"
        order = np.argsort(private.means_[:, 0])
        np.testing.assert_allclose(private.means_[order], [[-2, 0], [2, 1]], atol=0.5)
    mean = private_mean(rows, epsilon=3.0)
    assert mean.names == ("height", "weight")


def test_single_rows_are_never_looked_at(rows):
    model = KMeans(2, epsilon=None).fit(rows)
    assert not hasattr(model, "labels_")
    with pytest.raises(TypeError, match="not looked at one by one"):
        model.predict(rows)
