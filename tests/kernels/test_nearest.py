"""The compiled pass of k-means gives the sums and labels of NumPy, whatever the records are."""

import copy
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privem import KMeans
from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Block, Scratch
from privem.data.values import quietly
from privem.kernels import compiled
from privem.kernels.nearest import (
    first_best,
    nearest,
    nearest_block_rows,
    nearest_sums,
    piece_rows,
    sums_block_rows,
)
from privem.linalg import leaves, ravel
from privem.models.kmeans.model import Clusters, NearestQuery
from privem.models.kmeans.query import BoundedClusterQuery, whitened_weights

ROOT = Path(__file__).parents[2]
needs_compiled = pytest.mark.skipif(
    not compiled.available(), reason="this installation has no compiled part"
)
SHAPES = [
    (1, 1),
    (1, 5),
    (2, 5),
    (3, 2),
    (5, 4),
    (7, 13),
    (10, 8),
    (32, 3),
    (33, 9),
    (50, 20),
    (300, 6),
]
odd = st.one_of(st.floats(), st.floats(-3, 3), st.integers(-2, 2).map(float))


def laid_out(X: np.ndarray, how: str) -> np.ndarray:
    """The same numbers (rounded, for some types) in another place or type."""
    match how:
        case "columns":
            return np.asfortranarray(X)
        case "steps":
            return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
        case "backwards":
            return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
        case "unaligned":
            return np.frombuffer(b"x" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(X.shape)
        case "other order":
            return X.astype(X.dtype.newbyteorder())
    return X.astype(how)


LAYOUTS = ["float64", "float32", "float16", "longdouble", "int32", "bool"]
LAYOUTS += ["columns", "steps", "backwards", "unaligned", "other order"]


@needs_compiled
@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("narrow", [False, True])
def test_sums_and_labels_are_those_of_numpy(how: str, narrow: bool) -> None:
    rng = np.random.default_rng(0)
    for d, k in SHAPES:
        for n in (0, 1, 9, 70, 900):
            X = laid_out(3 * rng.standard_normal((n, d)), how)
            origin, centres = rng.standard_normal(d), rng.standard_normal((k, d))
            weight = rng.exponential(size=n) if rng.integers(2) else None
            label = np.full(n, -1, dtype=np.int32)
            found = compiled.NearestPass(origin, centres, None, narrow)(X, weight, Scratch(), label)
            if how in ("float16", "longdouble", "other order"):
                assert found is None or n == 0
                continue
            expected = nearest_sums(X, origin, centres, weight, Scratch())
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * max(n, 1))
            if how != "bool":  # many ties, which the last digits decide
                np.testing.assert_array_equal(label, nearest(X, origin, centres, Scratch())[1])


@needs_compiled
@settings(max_examples=150, deadline=None)
@given(
    X=st.sampled_from([1, 2, 5, 33]).flatmap(
        lambda d: arrays(np.float64, st.tuples(st.integers(0, 40), st.just(d)), elements=odd)
    ),
    data=st.data(),
)
def test_a_query_answers_the_same_with_and_without(X: np.ndarray, data: Any) -> None:
    d = X.shape[1]
    k = data.draw(st.integers(1, 6))
    few = st.floats(-3, 3)
    centres = data.draw(arrays(np.float64, (k, d), elements=few))
    weight = data.draw(st.none() | arrays(np.float64, len(X), elements=st.floats(0, 4)))
    with quietly():
        X = X.astype(np.float32) if data.draw(st.booleans()) else X
    block = Block(X, weight)
    query = NearestQuery(Clusters(centres), data.draw(arrays(np.float64, d, elements=few)))
    with pytest.MonkeyPatch.context() as patch, quietly():
        first = query(block, Scratch())
        patch.setenv("PRIVEM_COMPILED", "0")
        second = NearestQuery(query.clusters, query.origin)(block, Scratch())
    if not np.isfinite(ravel(second)).all():
        np.testing.assert_array_equal(ravel(first), ravel(second))
        return
    # Records between two centres may go to either, so that only what is common is compared.
    far = float(np.abs(X).max(initial=0.0))
    size = len(X) * (1 + far) * (1 if weight is None else 4)
    np.testing.assert_allclose(first.count.sum(), second.count.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        first.total.sum(axis=0), second.total.sum(axis=0), rtol=1e-9, atol=1e-11 * size
    )
    square = 1e-11 * size * (4 + far)
    np.testing.assert_allclose(first.inertia, second.inertia, rtol=1e-9, atol=square)


@needs_compiled
@settings(max_examples=150, deadline=None)
@given(
    X=st.sampled_from([1, 2, 5, 10, 33]).flatmap(
        lambda d: arrays(np.float64, st.tuples(st.integers(0, 40), st.just(d)), elements=odd)
    ),
    recipe=st.sampled_from(["whitened", "joint"]),
    ball=st.booleans(),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_a_private_query_answers_the_same(
    X: np.ndarray, recipe: str, ball: bool, seed: int, data: Any
) -> None:
    rng = np.random.default_rng(seed)
    d, k = X.shape[1], int(rng.integers(1, 7))
    weight = data.draw(st.none() | arrays(np.float64, len(X), elements=st.floats()))
    with quietly():
        X = X.astype(np.float32) if data.draw(st.booleans()) else X
    query = bounded(d, k, rng, recipe, ball)
    for a, b in both(query, Block(X, weight)):
        # Counts of records are exact, those of weights rounded.
        np.testing.assert_allclose(a.count, b.count, rtol=0 if weight is None else 1e-14)
        bound = query.rounding(len(X) * 2.0)
        assert np.linalg.norm(ravel(a) - ravel(b)) <= 2 * bound


def bounded(
    d: int, k: int, rng: np.random.Generator, recipe: str, ball: bool
) -> BoundedClusterQuery:
    low = rng.uniform(-2, 0, d)
    region = (
        Region.around_origin(float(rng.choice([0.5, 1.0, 3.0])), d)
        if ball
        else Region.box(low, low + rng.uniform(0.1, 3, d), isotropic=bool(rng.integers(2)))
    )
    r = 1.5 if recipe == "whitened" else region.reach
    weights = whitened_weights(d, r) if recipe == "whitened" else MomentWeights(1.0, 1 / r, 0.0, r)
    centres = rng.uniform(-1, 1, (k, d))
    centres[-1] = centres[0]  # a tie
    return BoundedClusterQuery(centres, region, weights, rng.uniform(0.01, 1), recipe, 2.0)


def both(query: BoundedClusterQuery, block: Block) -> Any:
    """Its answers with the compiled pass, wide and narrow, each beside NumPy's."""
    again = copy.deepcopy(query)
    object.__setattr__(again, "_compiled", None)
    with quietly():
        expected = again(block, Scratch())
        yield query(block, Scratch()), expected
        origin, centres, unit, _ = query._compiled._given
        slow = copy.deepcopy(query)
        object.__setattr__(
            slow, "_compiled", compiled.NearestPass(origin, centres, unit, narrow=True)
        )
        yield slow(block, Scratch()), expected


@needs_compiled
@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("recipe", ["whitened", "joint"])
def test_private_labels_are_the_same_to_the_last_bit(recipe: str, ball: bool) -> None:
    rng = np.random.default_rng(3)
    for d, k in SHAPES:
        query = bounded(d, k, rng, recipe, ball)
        c = query.lattice_centres
        between = (c[rng.integers(k, size=700)] + c[rng.integers(k, size=700)]) / 2
        side = rng.standard_normal(between.shape) * rng.choice([0, 1e-16, 1e-8, 0.3, 5], (700, 1))
        X = query.region.to_data(between + side)
        for a, b in both(query, Block(X)):
            np.testing.assert_array_equal(a.count, b.count)
            assert np.linalg.norm(ravel(a) - ravel(b)) <= 2 * query.rounding(len(X))


@needs_compiled
def test_ties_go_to_the_first_of_equal_centres() -> None:
    rng = np.random.default_rng(0)
    for d, k in SHAPES:
        centres = np.repeat(rng.integers(-4, 5, (1, d)) * 1.0, k, axis=0)
        X = rng.integers(-9, 9, (130, d)) * 1.0
        for narrow in (False, True):
            run = compiled.NearestPass(np.zeros(d), centres, None, narrow)
            count, _, _ = run(X, None, Scratch())
            assert count[0] == len(X)
        assert nearest_sums(X, np.zeros(d), centres, None, Scratch())[0][0] == len(X)


def test_numpy_gives_ties_to_the_first_as_well() -> None:
    X = np.array([[0.0], [1.0], [2.0]])
    count, total, square = nearest_sums(X, np.zeros(1), np.array([[0.0], [2.0]]), None, Scratch())
    assert count.tolist() == [2, 1]
    assert total.ravel().tolist() == [1, 2]
    assert square == 1.0


@pytest.mark.parametrize("k", [1, 5, 24, 254, 255, 256, 300])
def test_the_best_is_the_first_of_the_largest(k: int) -> None:
    score = np.random.default_rng(k).integers(-3, 3, (k, 800)).astype(np.float64)
    expected = score.argmax(axis=0)
    score[k // 2, ::5], expected[::5] = np.nan, 0
    np.testing.assert_array_equal(first_best(score, score.max(axis=0)), expected)


@pytest.mark.parametrize("how", ["float64", "float32", "int32", "columns", "steps"])
def test_numpy_sums_over_the_records_of_each_label(how: str) -> None:
    rng = np.random.default_rng(0)
    for d, k in [*SHAPES, (2, 300), (40, 260)]:
        origin, centres = rng.standard_normal(d), rng.standard_normal((k, d))
        for n in (0, 1, 9, 1500):  # with and without pieces of whole eights
            X = laid_out(3 * rng.standard_normal((n, d)), how)
            x = np.asarray(X, dtype=np.float64) - origin
            away = ((x[:, None] - centres) ** 2).sum(axis=2)
            label = away.argmin(axis=1)
            for weight in (None, rng.exponential(size=n)):
                w = np.ones(n) if weight is None else weight
                count, total, square = nearest_sums(X, origin, centres, weight, Scratch())
                member = (label[:, None] == np.arange(k)) * w[:, None]
                np.testing.assert_allclose(count, member.sum(axis=0), rtol=1e-13)
                np.testing.assert_allclose(total, member.T @ x, rtol=1e-11, atol=1e-11)
                np.testing.assert_allclose(square, away.min(axis=1) @ w, rtol=1e-11)


def test_sums_are_made_in_no_more_additions_than_charged() -> None:
    for d in (1, 2, 10, 50, 784, 5000):
        for k in (1, 8, 100, 1000):
            depth, rows, piece = nearest_block_rows(d, k), sums_block_rows(d, k), piece_rows(d, k)
            assert piece + rows // piece <= depth
            assert rows % piece == 0
            # The compiled pass: pieces of 256 records (c/nearest.c).
            assert 256 + -(-rows // 256) <= depth


@needs_compiled
def test_a_block_of_many_pieces_errs_less_than_charged() -> None:
    rng = np.random.default_rng(0)
    query = bounded(3, 4, rng, "whitened", False)
    X = query.region.to_data(rng.uniform(-1.2, 1.2, (query.block_rows, 3)))
    for a, b in both(query, Block(X)):
        assert np.linalg.norm(ravel(a) - ravel(b)) <= 2 * query.rounding(len(X))


@needs_compiled
def test_a_query_that_was_used_can_be_copied_and_sent() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    query = NearestQuery(Clusters(X[:3]), np.zeros(2))
    first = query(Block(X), Scratch())
    for other in (copy.deepcopy(query), pickle.loads(pickle.dumps(query))):
        second = other(Block(X), Scratch())
        for name, leaf in leaves(first).items():
            np.testing.assert_array_equal(leaf, leaves(second)[name])


@needs_compiled
def test_rows_that_do_not_fit_never_reach_c() -> None:
    """It would read beyond them, and write beyond labels."""
    X, label = np.zeros((5, 2)), np.empty(5, dtype=np.int32)
    run = compiled.NearestPass(np.zeros(2), np.zeros((3, 2)))
    assert run(X, np.ones(5), Scratch(), label) is not None
    for unfit in (
        (X[:, :1], None, Scratch()),
        (np.zeros((5, 3)), None, Scratch()),
        (X[0], None, Scratch()),
        (X[:, :, None], None, Scratch()),
        (X, np.ones(4), Scratch()),
        (X, None, Scratch(), label[:4]),
    ):
        assert run(*unfit) is None


@needs_compiled
def test_a_query_may_be_sent_to_where_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    query = NearestQuery(Clusters(np.zeros((3, 2))), np.zeros(2))
    first = query(Block(np.ones((4, 2))), Scratch())
    packed = pickle.dumps(query)
    assert b"_made_anew" in packed
    monkeypatch.setattr(compiled, "_LIBRARY", "no-such-library.so")
    monkeypatch.setattr(compiled, "_library", compiled._library.__wrapped__)
    monkeypatch.delenv("PRIVEM_COMPILED", raising=False)
    second = pickle.loads(packed)(Block(np.ones((4, 2))), Scratch())
    np.testing.assert_array_equal(ravel(first), ravel(second))


@needs_compiled
def test_a_library_of_other_sources_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_library", compiled._library.__wrapped__)
    monkeypatch.delenv("PRIVEM_COMPILED", raising=False)
    assert compiled.available()
    monkeypatch.setattr(compiled, "_sources", lambda: 1)
    assert not compiled.available()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("flags", [["-O3"], ["-Ofast"], ["-ffast-math"], ["-ffinite-math-only"]])
def test_arithmetic_that_no_proof_knows_is_not_compiled(flags: list[str]) -> None:
    source = Path(compiled.__file__).parent / "c" / "nearest.c"
    command = ["gcc", "-std=gnu11", *flags, "-fsyntax-only", "-Wno-psabi", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode == 0) == (flags == ["-O3"]), done.stderr


@needs_compiled
def test_other_threads_run_meanwhile() -> None:
    X = np.random.default_rng(0).standard_normal((4_000_000, 2))
    run = compiled.NearestPass(np.zeros(2), np.ascontiguousarray(X[:200]))
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.perf_counter()
    run(X, None, Scratch())
    ended = time.perf_counter()
    stop.set()
    thread.join()
    # One call in C that held the lock would let none through but at its ends.
    assert sum(began < at < ended for at in ticks) > 5


def test_a_fit_is_the_same_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((3000, 4))
    first = KMeans(5, epsilon=None).fit(X)
    monkeypatch.setenv("PRIVEM_COMPILED", "0")
    second = KMeans(5, epsilon=None).fit(X)
    np.testing.assert_allclose(first.cluster_centers_, second.cluster_centers_, atol=1e-9)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


def test_it_is_an_error_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_LIBRARY", "no-such-library.so")
    monkeypatch.setattr(compiled, "_library", compiled._library.__wrapped__)
    monkeypatch.delenv("PRIVEM_COMPILED", raising=False)
    assert not compiled.available()
    monkeypatch.setenv("PRIVEM_COMPILED", "1")
    with pytest.raises(ImportError, match="no compiled part"):
        compiled.available()


@needs_compiled
@pytest.mark.parametrize(
    "chosen",
    [
        "tests/contracts",
        pytest.param("tests/golden", marks=pytest.mark.slow),
        pytest.param("tests/models", marks=pytest.mark.slow),
    ],
)
def test_contracts_and_recordings_hold_without_it(chosen: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, chosen, "-k", "KMeans or kmeans", "--no-header"],
        env={**os.environ, "PRIVEM_COMPILED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
