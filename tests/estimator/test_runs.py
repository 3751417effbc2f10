"""What every exact plan keeps: replay, threads and blocks change nothing."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from privem import FactorAnalysis, GaussianMixture, KMeans
from privem.blocks.moments import FramePlan
from privem.core import Block
from privem.data import ArrayRows, LocalSource, read_rows
from privem.models.gaussian_mixture.m_step import Prior
from privem.models.gaussian_mixture.model import COVARIANCE_TYPES
from privem.models.gaussian_mixture.plan import MixturePlan, Start
from privem.models.kmeans.plan import KMeansPlan
from privem.run import Record, Recorded, run

N, D, K = 211, 3, 4
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D)) + 4 * RNG.integers(0, 3, size=(N, 1))
NAMES = list("abc")


def mixture(kind="full", prior=None, start=None):
    return MixturePlan(NAMES, K, kind, 1e-6, prior, 5, 0.0, [start or Start()])


def rng():
    return np.random.default_rng(3)


# Factories: a plan with a random start uses its generator up.
PLANS = {
    "frame": lambda: FramePlan(NAMES),
    **{kind: (lambda kind=kind: mixture(kind)) for kind in COVARIANCE_TYPES},
    "map": lambda: mixture(prior=Prior(2.0, np.zeros(D), 1.0, D + 2.0, 0.1 * np.eye(D))),
    "random directions": lambda: mixture(start=Start("kmeans", rng())),
    "random shares": lambda: mixture(start=Start("random", rng())),
    "given centres": lambda: mixture(start=Start(X[:K].copy())),
    "far centres": lambda: mixture("tied", start=Start(means=X[:K] + 1e4)),
    "k-means": lambda: KMeansPlan(NAMES, K, 20, 1e-4, [None, rng(), X[:K].copy()]),
}
every_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def bits(value):
    """Everything a result holds, as bytes and text."""
    if dataclasses.is_dataclass(value):
        return [(f.name, bits(getattr(value, f.name))) for f in dataclasses.fields(value)]
    if isinstance(value, (tuple, list)):
        return [bits(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return repr(value)


@every_plan
def test_a_recording_gives_the_same_result_with_the_data_gone(plan):
    record = Record()
    result = run(plan(), LocalSource(read_rows(X), 1), record)
    again = run(plan(), Recorded(record.releases))
    assert bits(again) == bits(result)
    with pytest.raises(RuntimeError, match="recording ended before stage"):
        run(plan(), Recorded(record.releases[:-1]))


@every_plan
def test_no_release_grows_with_the_rows(plan):
    """A release holds sums and the question, nothing per record."""
    record = Record()
    run(plan(), LocalSource(read_rows(X), 1), record)

    def shapes(value):
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from shapes(getattr(value, field.name))
        elif isinstance(value, np.ndarray):
            yield value.shape

    sizes = {size for release in record.releases for shape in shapes(release) for size in shape}
    assert sizes
    assert max(sizes) < N


def test_the_loop_closes_a_plan_that_fails():
    closed = []

    class Failing:
        def stages(self):
            try:
                yield from FramePlan(NAMES).stages()
            finally:
                closed.append(True)

    class Broken:
        def release(self, stage):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"):
        run(Failing(), Broken())
    assert closed


@dataclasses.dataclass
class Chopped:
    """The same rows in other blocks."""

    rows: ArrayRows
    size: int
    names = None

    @property
    def n_features(self):
        return self.rows.n_features

    def blocks(self, rows):
        return self.rows.blocks(min(rows, self.size))


ESTIMATORS = {
    **{
        k: GaussianMixture(3, covariance_type=k, max_iter=4, tol=0, epsilon=None)
        for k in COVARIANCE_TYPES
    },
    "map": GaussianMixture(3, prior="map", max_iter=4, tol=0, epsilon=None),
    "random": GaussianMixture(
        3, init_params="random", max_iter=4, tol=0, random_state=5, epsilon=None
    ),
    "k-means++": GaussianMixture(
        3, init_params="k-means++", max_iter=4, tol=0, random_state=5, epsilon=None
    ),
    "KMeans": KMeans(4, n_init=2, random_state=5, epsilon=None),
    "FactorAnalysis": FactorAnalysis(2, epsilon=None),
}
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


def fitted(estimator, X, weight=None, **parameters):
    """Fitted attributes that are numbers; names, types and labels apart."""
    from sklearn.base import clone

    model = clone(estimator).set_params(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, sample_weight=weight)
    skip = ("feature_names_in_", "feature_types_in_", "labels_")
    return {k: v for k, v in vars(model).items() if k.endswith("_") and k not in skip}


def big():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 4)) * [1, 2, 3, 4]
    return X + 6 * rng.integers(0, 3, size=(len(X), 1)), rng.uniform(0, 2, len(X))


def assert_close(a, b, rtol):
    assert a.keys() == b.keys()
    for name in a:
        size = np.max(np.abs(b[name]))
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=rtol * size, err_msg=name)


@every_estimator
def test_threads_do_not_change_a_bit(estimator):
    X, weight = big()
    one, three = (fitted(estimator, X, weight, n_jobs=jobs) for jobs in (1, 3))
    for name in one:
        assert np.asarray(one[name]).tobytes() == np.asarray(three[name]).tobytes(), name


@every_estimator
def test_blocks_do_not_matter(estimator):
    X, weight = big()
    whole = fitted(estimator, X, weight)
    for size in (1000, 4093):
        assert_close(fitted(estimator, Chopped(ArrayRows(X, weight), size)), whole, 1e-12)


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"random", "k-means++"}))
def test_a_weight_is_a_number_of_copies(name):
    """But for the starts that look at single rows, as documented."""
    estimator = ESTIMATORS[name]
    X, _ = big()
    X, copies = X[:600], np.random.default_rng(4).integers(0, 4, 600)
    weighted = fitted(estimator, X, copies.astype(float))
    assert_close(weighted, fitted(estimator, np.repeat(X, copies, axis=0)), 1e-9)


def forms(tmp_path):
    """The same numbers, exactly representable in float32, laid out in every way."""
    X = big()[0][:3000].astype(np.float32).astype(np.float64)
    wide = np.zeros((6000, 8))
    wide[::2, ::2] = X
    backward = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    read_only = X.copy()
    read_only.flags.writeable = False
    file = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=float, shape=X.shape)
    file[:] = X
    mapped = np.memmap(tmp_path / "x.raw", mode="w+", dtype=np.float32, shape=X.shape)
    mapped[:] = X
    return X, {
        "float32": X.astype(np.float32),
        "float32 Fortran": np.asfortranarray(X, dtype=np.float32),
        "Fortran": np.asfortranarray(X),
        "strided": wide[::2, ::2],
        "backward": backward,
        "read-only": read_only,
        "memmap": file,
        "memmap float32": mapped,
        "big-endian": X.astype(">f8"),
        "list": X.tolist(),
    }


@every_estimator
def test_memory_layout_and_precision_of_the_input_do_not_matter(estimator, tmp_path):
    X, others = forms(tmp_path)
    expected = fitted(estimator, X)
    model = estimator.__class__(**estimator.get_params()).set_params(max_iter=100, tol=1e-3).fit(X)
    scores = model.score(X)
    for name, other in others.items():
        assert_close(fitted(estimator, other), expected, 1e-12)
        assert model.score(other) == pytest.approx(scores, rel=1e-12), name
    np.testing.assert_array_equal(X, forms(tmp_path)[0])  # and the input is left as it was


def test_random_shares_belong_to_the_row_not_to_its_block():
    from privem.linalg import Scratch
    from privem.models.gaussian_mixture.model import AssignedQuery

    query = AssignedQuery("diag", np.zeros(D), np.zeros((K, D)), seed=9)
    whole = query(Block(X), Scratch()).count
    parts = sum(query(Block(X[a : a + 50], None, a), Scratch()).count for a in range(0, N, 50))
    np.testing.assert_allclose(parts, whole, rtol=1e-13)
    other = dataclasses.replace(query, seed=10)(Block(X), Scratch()).count
    assert not np.allclose(other, whole)
