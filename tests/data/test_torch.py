"""Rows in torch tensors: the same answers as from arrays, whatever the device.

The kernels run on torch's CPU here; on a CUDA device the last tests run too.
"""

import itertools
import math
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import privem
from privem.blocks.device import inside, placed
from privem.blocks.histograms import CountQuery
from privem.blocks.profile import ColumnsQuery
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Scratch
from privem.data import device, open_table, rows_on
from privem.data.sums import ArrayRows, LocalSource
from privem.data.table import Policy
from privem.fit import fund
from privem.kernels import cuda
from privem.kernels.tensors import rooted
from privem.linalg import ravel
from privem.models.categorical_mixture.model import Classes, ClassQuery
from privem.models.categorical_mixture.pairs import PairsQuery
from privem.models.gaussian_mixture.model import Mixture, MixtureQuery
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.kmeans.query import BoundedClusterQuery, whitened_weights
from privem.run import Record, Recorded, run

torch = pytest.importorskip("torch", reason="torch is not installed")

SHAPES = ("full", "tied", "diag", "spherical")
# What docs/scaling-gpu.md promises of exact fits in float32, in deviations of the data.
SINGLE = 2e-5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(m, 1, (4000, 4)) for m in (0.0, 5.0, -5.0)])


def there(X, **more):
    return rows_on(torch.from_numpy(np.ascontiguousarray(X)), "cpu", **more)


def numbers(model, names):
    return np.concatenate([np.ravel(getattr(model, name)) for name in names])


MODELS = {
    **{
        shape: (
            lambda shape=shape: privem.GaussianMixture(3, covariance_type=shape, epsilon=None),
            ("weights_", "means_", "covariances_", "lower_bound_"),
        )
        for shape in SHAPES
    },
    "kmeans": (
        lambda: privem.KMeans(3, epsilon=None),
        ("cluster_centers_", "inertia_", "labels_"),
    ),
    "factors": (
        lambda: privem.FactorAnalysis(2, epsilon=None),
        ("components_", "noise_variance_", "mean_"),
    ),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_exact_fits_are_those_of_arrays(data, name, weighted):
    make, names = MODELS[name]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(data)) if weighted else None
    expected = make().fit(data, sample_weight=weight)
    found = make().fit(there(data, weight=weight))
    a, b = numbers(expected, names), numbers(found, names)
    assert np.abs(a - b).max() <= 1e-9 * max(1.0, np.abs(a).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_single_precision_keeps_to_its_tolerance(data, shape):
    make, names = MODELS[shape]
    X = data.astype(np.float32)
    a, b = numbers(make().fit(X), names), numbers(make().fit(there(X)), names)
    assert np.abs(a - b).max() <= SINGLE
    assert np.abs(a - b).max() > 0  # it is single precision that is tried


def test_components_far_apart_are_summed_about_their_means():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(m, 1e-4, (500, 2)) for m in (-100.0, 0.0, 100.0)])
    means = np.array([[-100.0, -100.0], [0.0, 0.0], [100.0, 100.0]])
    for shape in SHAPES:
        covariances = {
            "full": np.stack([1e-8 * np.eye(2)] * 3),
            "tied": 1e-8 * np.eye(2),
            "diag": np.full((3, 2), 1e-8),
            "spherical": np.full(3, 1e-8),
        }[shape]
        mixture = Mixture(shape, np.full(3, 1 / 3), means, covariances)
        query = MixtureQuery(mixture, np.zeros(2), direct=True)
        expected = ravel(LocalSource(ArrayRows(X)).total(query, private=False))
        found = ravel(there(X).summed(query))
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-12)


def odd_records(rng, n, d):
    X = 2 * rng.standard_normal((n, d))
    X[5], X[6, 0], X[7], X[8], X[9, -1] = np.nan, np.inf, 1e308, -1e200, -np.inf
    return X


def regions(d):
    return (
        Region.box(np.full(d, -8.0), np.full(d, 9.0)),
        Region.around_origin(9.0, d),
    )


@pytest.mark.parametrize("d", [1, 3, 10])
def test_unit_coordinates_are_those_of_numpy_to_the_last_bit(d):
    rng = np.random.default_rng(3)
    for dtype, region in itertools.product((np.float64, np.float32), regions(d)):
        with np.errstate(over="ignore"):
            X = odd_records(rng, 400, d).astype(dtype)
        records = there(X).records()
        expected, found = np.empty((d, 400)), torch.empty((d, 400), dtype=torch.float64)
        with np.errstate(all="ignore"):
            region.place(X, expected, Scratch())
        placed(region, records)(records.X, found)
        assert np.array_equal(expected, found.numpy())
        x = X.T.astype(np.float64)
        y = inside(region, records.work)(torch.from_numpy(x.copy()))
        with np.errstate(all="ignore"):
            region.clamp(x)
        assert np.array_equal(x, y.numpy(), equal_nan=True)


def test_no_operation_rounds_otherwise_than_that_of_numpy():
    """Of 100,000 square roots by MKL a thousand are off by a bit."""
    rng = np.random.default_rng(4)
    a, b = rng.uniform(1, 9, (2, 100_003))
    s, t = torch.from_numpy(a), torch.from_numpy(b)
    for ours, theirs in (
        (rooted(s.clone()), np.sqrt(a)),
        (torch.div(1.0, s), 1.0 / a),
        (s.div(t), a / b),
        (s * t, a * b),
        (s - t, a - b),
        (s + t, a + b),
    ):
        assert np.array_equal(ours.numpy(), theirs)
    X, ball, expected = 9 * rng.standard_normal((20_001, 5)), regions(5)[-1], np.empty((5, 20_001))
    assert ball.ball
    found = torch.empty((5, 20_001), dtype=torch.float64)
    ball.place(X, expected, Scratch())
    placed(ball, there(X).records())(torch.from_numpy(X), found)
    assert np.array_equal(expected, found.numpy())


def mixture_of(shape, k, d, rng):
    noise = rng.standard_normal((k, d, d)) * 0.3 / math.sqrt(d)
    full = 0.05 * (np.eye(d) + noise @ noise.transpose(0, 2, 1))
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.03, 0.08, (k, d)),
        "spherical": rng.uniform(0.03, 0.08, k),
    }
    weights = rng.uniform(1.0, 2.0, k)
    means = rng.uniform(-0.5, 0.5, (k, d))
    return Mixture(shape, weights / weights.sum(), means, covariances[shape])


@pytest.mark.parametrize(("d", "k", "n"), [(2, 3, 30_011), (10, 4, 9_001), (40, 3, 2_003)])
@pytest.mark.parametrize("weighted", [False, True])
def test_private_sums_are_within_the_charged_rounding(d, k, n, weighted):
    rng = np.random.default_rng(4)
    X = odd_records(rng, n, d)
    weight = rng.uniform(0.0, 2.0, n) if weighted else None
    if weight is not None:
        weight[3], weight[4] = -1.0, np.inf
    host, rows = LocalSource(ArrayRows(X, weight)), replace(there(X), weight=weight)
    ways = set()
    for region, cap, shape in itertools.product(regions(d), (1.0, 0.5), SHAPES):
        queries = []
        for recipe, many in itertools.product(("whitened", "joint"), (1e3, 1e9)):
            radius = 3.0 * math.sqrt(d) if recipe == "whitened" else region.reach
            w = MomentWeights.balanced(d, radius, diagonal=shape == "diag")
            query = BoundedQuery(mixture_of(shape, k, d, rng), region, w, recipe, many, cap)
            ways.add("direct" if query.direct else "shared" if query.shared else "products")
            queries.append(query)
        whitened = whitened_weights(d, 3.0)
        plain = MomentWeights(1.0, 1.0 / region.reach, 0.0, region.reach)
        for recipe, w in (("whitened", whitened), ("joint", plain)):
            centres = rng.uniform(-0.5, 0.5, (k, d))
            queries.append(BoundedClusterQuery(centres, region, w, 0.3, recipe, cap))
        queries += [CountQuery(cap), ColumnsQuery(region, cap)]
        for query in queries:
            expected, found = host.total(query, private=True), rows.summed(query)
            if found is None:
                assert isinstance(query, ColumnsQuery)
                assert weighted or cap < 1
                continue
            size = n if weight is None else float(np.fmin(np.fmax(weight, 0.0), cap).sum())
            # Twice: both sums may be off.
            apart = np.linalg.norm(ravel(expected) - ravel(found))
            assert apart <= 2 * query.rounding(min(size, n * cap) + 1)
    assert ways == {"direct", "shared", "products"}


def test_latent_classes():
    rng = np.random.default_rng(5)
    kinds = rng.integers(0, 3, 5000)
    X = ((kinds[:, None] + rng.integers(0, 2, (5000, 5))) % 3).astype(float)
    weight = rng.uniform(0.0, 2.0, 5000)
    for w in (None, weight):
        a = privem.CategoricalMixture(3, epsilon=None, random_state=0).fit(X, sample_weight=w)
        b = privem.CategoricalMixture(3, epsilon=None, random_state=0).fit(there(X, weight=w))
        assert np.allclose(a.category_probs_, b.category_probs_, rtol=0, atol=1e-9)
        for query in (
            ClassQuery(Classes(np.full(3, 1 / 3), rng.uniform(0.2, 0.8, (3, 15))), (3,) * 5, 1.0),
            PairsQuery((3,) * 5, 1.0),
        ):
            expected = LocalSource(ArrayRows(X, w)).total(query, private=True)
            found = replace(there(X), weight=w).summed(query)
            assert np.linalg.norm(ravel(expected) - ravel(found)) <= 2 * query.rounding(5000.0)
    codes = privem.CategoricalMixture(3, epsilon=5.0, categories=[[0, 1, 2]] * 5, random_state=0)
    assert codes.fit(there(X), groups=np.arange(5000) // 2).privacy_.unit == "person"


FITS = {
    "mixture": lambda: privem.GaussianMixture(3, bounds=(-20, 20), random_state=0),
    "bounds": lambda: privem.GaussianMixture(3, epsilon=20.0, random_state=0),
    "kmeans": lambda: privem.KMeans(3, bounds=(-20, 20), random_state=0),
    "factors": lambda: privem.FactorAnalysis(2, bounds=(-20, 20)),
}


@pytest.mark.parametrize("name", FITS)
def test_all_sums_of_private_fits_are_within_the_charged_rounding(data, name, monkeypatch):
    X = data.copy()
    X[3], X[4, 0] = 1e300, np.inf
    host, release, asked = LocalSource(ArrayRows(X)), LocalSource.release, []

    def watched(self, stage):
        found = self._view(stage.query)
        if hasattr(found, "summed") and (value := found.summed(stage.query)) is not None:
            expected = host.total(stage.query, private=True)
            apart = np.linalg.norm(ravel(expected) - ravel(value))
            assert apart <= 2 * stage.query.rounding(float(len(X)))
            asked.append(type(stage.query).__name__)
        return release(self, stage)

    monkeypatch.setattr(LocalSource, "release", watched)
    model = FITS[name]().fit(there(X))
    assert model.privacy_.spent <= model.privacy_.epsilon
    assert len(asked) > 5 or name == "factors"


def test_a_private_fit_is_played_again_without_the_rows(data):
    def plan():
        model = FITS["kmeans"]()
        table, terms = model._open_table(there(data)), model._terms()
        return fund(model._private_plan(table, terms), terms)[0], table

    funded, table = plan()
    record = Record()
    first = run(funded, table.source(), record)
    again = run(plan()[0], Recorded(record.releases))
    assert np.array_equal(first.state, again.state)


def test_the_same_sum_has_the_same_bits(data):
    rng = np.random.default_rng(6)
    w = MomentWeights.balanced(4, 6.0)
    query = BoundedQuery(mixture_of("full", 3, 4, rng), regions(4)[0], w, "whitened", 1e9)
    first, second = (ravel(there(data).summed(query)) for _ in range(2))
    assert np.array_equal(first, second)


def test_fits_of_the_same_rows_in_several_threads_do_not_mix():
    """They share working memory: sums were up to a million times what a record may contribute."""
    rng = np.random.default_rng(0)
    rows = rows_on(torch.tensor(4 * rng.normal(size=(20_000, 5))), "cpu")
    region = Region.box(np.full(5, -8.0), np.full(5, 9.0))
    centres = rng.uniform(-0.7, 0.7, (2, 6, 5))
    queries = [
        BoundedClusterQuery(c, region, whitened_weights(5, 2.0), spread, "whitened")
        for c, spread in zip(centres, (0.1, 0.001), strict=True)
    ]

    def summed(query):
        return ravel(LocalSource(rows).total(query, private=True)).tobytes()

    alone = [summed(query) for query in queries]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(summed, queries * 30))
    assert together == alone * 30


@pytest.mark.parametrize("private", [False, True])
def test_bad_values_are_refused_before_anything_is_spent(data, private):
    X = data.copy()
    X[17, 2] = np.nan
    model = privem.KMeans(3, epsilon=1.0 if private else None)
    with pytest.raises(ValueError, match="contains NaN" if private else r"row 17, column 2"):
        model.fit(there(X))
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "Expected 2D"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.zeros((3, 2), dtype=complex), "real"),
    ],
)
def test_bad_forms_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        there(X)


def test_sparse_tensors_are_refused():
    with pytest.raises(TypeError, match="to_dense"):
        privem.KMeans(2).fit(torch.eye(3).to_sparse())


def test_weights_and_groups(data):
    rows = there(data)
    with pytest.raises(ValueError, match="sample_weight has shape"):
        there(data, weight=np.ones(3))
    with pytest.raises(TypeError, match="when the rows are opened"):
        privem.KMeans(3).fit(rows, sample_weight=np.ones(len(data)))
    with pytest.raises(ValueError, match="groups has shape"):
        privem.KMeans(3).fit(rows, groups=np.arange(5))
    model = privem.KMeans(3, bounds=(-20, 20)).fit(rows, groups=np.arange(len(data)) // 2)
    assert model.privacy_.unit == "person"


def test_models_without_kernels_of_their_own_get_blocks(data):
    y = data[:, 0] * 2 + data[:, 1]
    a = privem.RegressionMixture(1, epsilon=None).fit(data[:, 1:], y)
    b = privem.RegressionMixture(1, epsilon=None).fit(there(data[:, 1:]), torch.from_numpy(y))
    assert np.array_equal(a.coef_, b.coef_)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        privem.RegressionMixture(1, epsilon=None).fit(there(data[:, 1:]), y[:5])


def test_blocks_are_those_of_an_array(data):
    rows = there(data)
    for ours, theirs in zip(rows.blocks(1000), ArrayRows(data).blocks(1000), strict=True):
        assert np.array_equal(ours.X, theirs.X)
        assert ours.start == theirs.start


def test_predictions(data):
    model = privem.KMeans(3, epsilon=None).fit(data)
    assert np.array_equal(model.predict(there(data)), model.predict(data))
    assert np.array_equal(model.predict(torch.from_numpy(data)), model.predict(data))
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(there(data[:, :2]))


def test_arrays_of_cupy_are_tensors_without_a_copy(data, monkeypatch):
    """By DLPack; what comes with the rows is fetched. A stand-in, whose memory is the host's."""

    class Stand:
        def __init__(self, values):
            self.values = np.array(values)  # DLPack shares no memory that may not be written to

        def __dlpack__(self, **more):
            return self.values.__dlpack__(**more)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

        def get(self):
            return self.values

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=Stand))
    X, weight = Stand(data), np.arange(len(data)) % 3.0
    assert np.shares_memory(open_table(X).rows.X, X.values)
    for model in (privem.KMeans(3, epsilon=None), privem.GaussianMixture(3, epsilon=None)):
        found = model.fit(X, sample_weight=Stand(weight)).predict(X)
        assert np.array_equal(found, model.fit(data, sample_weight=weight).predict(data))


def test_a_tensor_in_the_memory_of_the_host_is_an_array(data):
    tensor = torch.from_numpy(data).requires_grad_()
    table = open_table(tensor)
    assert isinstance(table.rows, ArrayRows)
    assert np.shares_memory(table.rows.X, data)
    half = open_table(torch.from_numpy(data).bfloat16())
    assert half.rows.X.dtype == np.float32


def test_what_somebody_has_set_changes_nothing(data):
    query = MixtureQuery(mixture_of("full", 3, 4, np.random.default_rng(7)), np.zeros(4))
    X = (data / 10).astype(np.float32)
    plain = ravel(there(X).summed(query))
    rows = rows_on(torch.from_numpy(X).requires_grad_(), "cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(ravel(rows.summed(query)), plain)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert np.array_equal(ravel(rows.summed(query)), plain)
    finally:
        torch.set_default_dtype(default)


def test_emulated_products_are_refused(monkeypatch):
    rows = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    device._refuse_emulation(rows, Policy(private=True))
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    device._refuse_emulation(rows, Policy())
    with pytest.raises(ValueError, match="emulated"):
        device._refuse_emulation(rows, Policy(private=True))


def test_no_record_is_shown_where_rows_are(data):
    """A notebook shows what a cell returns, and a traceback what it was called with."""
    held = ArrayRows(data, data[:, 0], groups=data[:, 1], target=data[:, 2])
    for rows in (there(data, weight=np.abs(data[:, 0])), held):
        assert not re.search(r"\d\.\d|array|tensor", repr(rows))


def test_a_path_is_no_array():
    with pytest.raises(TypeError, match=r"np\.load\(path, mmap_mode='r'\)"):
        rows_on("rows.npy", "cpu")


def test_rows_are_not_copied_away_from_an_accelerator():
    with pytest.raises(ValueError, match="X lies on meta"):
        rows_on(torch.zeros((3, 2), device="meta"), "cpu")


def test_emulation_that_was_asked_for_later_gets_no_sums(data, monkeypatch):
    """Neither do those see it who open rows without a fit: blocks go to the host."""
    rows = replace(there(data), device=SimpleNamespace(type="cuda"))
    assert rows._computes
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    assert not rows._computes
    assert rows.summed(CountQuery()) is None


def test_a_private_sum_does_not_warn_of_its_kernel(monkeypatch):
    """Only from so many rows on is there one: a warning would tell that there are as many."""

    def failing(**_):
        raise RuntimeError("no compiler")

    cupy = SimpleNamespace(cuda=SimpleNamespace(Device=nullcontext), RawModule=failing)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    exact = cuda.Shape("square", 2, 2, hard=False, single=False, short=False)
    with pytest.warns(RuntimeWarning, match="cannot be compiled"):
        assert cuda._module.__wrapped__(exact, 0) is None
    private = replace(exact, bounded=True)
    differ = (np.ones((2, 5)), 0.0), (np.zeros((2, 5)), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cuda._module.__wrapped__(private, 0) is None
        monkeypatch.setattr(cuda, "_distrusted", set())
        assert not cuda.trusted(private, *(lambda each=each: each for each in differ))


def test_devices_of_another_kind_get_no_sums(data):
    rows = replace(there(data), device=SimpleNamespace(type="mps"))
    assert rows.summed(CountQuery()) is None
    assert ravel(LocalSource(rows).total(CountQuery(), private=True)) == [len(data)]


def test_totals_lose_nothing():
    from privem.kernels.tensors import Total

    rng = np.random.default_rng(8)
    values = rng.standard_normal((50, 8, 3)) * 10.0 ** rng.integers(-8, 8, (50, 8, 3))
    total = Total(torch)
    for part in values:
        total.add(torch.from_numpy(part))
    expected = [math.fsum(values[:, :, j].ravel()) for j in range(3)]
    assert np.allclose(total.values()[0], expected, rtol=2e-16, atol=0)


def test_queries_without_a_kernel_have_none(data):
    assert there(data).summed(SimpleNamespace()) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", MODELS)
def test_on_a_cuda_device(data, name):
    make, names = MODELS[name]
    expected = numbers(make().fit(data), names)
    held = torch.from_numpy(data).cuda()
    cupy = import_module("cupy") if find_spec("cupy") else None
    for rows in (held, rows_on(data, "cuda"), *([cupy.asarray(data)] if cupy else [])):
        found = numbers(make().fit(rows), names)
        assert np.abs(expected - found).max() <= 1e-9 * max(1.0, np.abs(expected).max())
