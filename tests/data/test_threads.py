"""``n_jobs`` is what scikit-learn's users expect, and threads do not multiply."""

import ast
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from privem import GaussianMixture, KMeans, kernels, linalg, private_mean
from privem.data import ArrayRows, LocalSource, sums
from privem.data.sums import effective_threads
from privem.linalg import whiten

X = np.random.default_rng(0).standard_normal((600, 2))


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, [1, 1, 1]), (4, [4, 3, 1]), (64, [64, 63, 56])]
)
def test_negative_numbers_count_from_all_cores(
    cores: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "_cores", lambda: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(128), raising=False)
    assert [effective_threads(n) for n in (-1, -2, -9)] == expected
    assert effective_threads(3) == 3


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_cores", lambda: 4)  # the quota of a container, say
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert effective_threads(-1) == 2


def test_none_is_as_many_as_blas_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_cores", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2), raising=False)
    with threadpool_limits(1, user_api="blas"):
        assert effective_threads(None) == 1
    with threadpool_limits(2, user_api="blas"):
        assert effective_threads(None) == 2


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), (1.5, TypeError), ("2", TypeError)])
def test_what_is_no_number_of_threads_is_refused_before_a_fit(
    wrong: Any, error: type[Exception]
) -> None:
    class Unread:
        shape = property(lambda self: pytest.fail("the data were looked at"))

    for model in (KMeans(2, n_jobs=wrong), GaussianMixture(2, n_jobs=wrong, epsilon=None)):
        with pytest.raises(error, match="n_jobs"):
            model.fit(Unread())
    with pytest.raises(error, match="n_jobs"):
        private_mean(X, n_jobs=wrong)


def test_threads_are_as_many_as_asked_for_and_blas_has_one() -> None:
    seen: set[int] = set()
    blas: set[int] = set()
    everybody = threading.Event()

    def look(block: Any, scratch: Any) -> int:
        seen.add(threading.get_ident())
        blas.update(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        if len(seen) == 3:
            everybody.set()
        everybody.wait(20)
        return len(block.X)

    with threadpool_limits(2, user_api="blas"):
        source = LocalSource(ArrayRows(np.zeros((40, 1))), n_jobs=3)
        assert sum(source.each(look, 10, 1)) == 40
    assert len(seen) == 3
    assert blas == {1}


def test_whitening_without_the_lock_is_scipys(monkeypatch: pytest.MonkeyPatch) -> None:
    assert linalg._dtrmm() is not None, "SciPy has another interface: threads wait for each other"
    rng = np.random.default_rng(0)
    for d, b in ((1, 1), (3, 0), (7, 20), (64, 500)):
        w, x = np.tril(rng.standard_normal((d, d))), rng.standard_normal((d, b))
        found = x.copy()
        assert whiten(w, found) is found or b == 0
        strided = np.repeat(x, 2, axis=1)[:, ::2]
        np.testing.assert_allclose(whiten(w, strided), w @ x, atol=1e-12)
        np.testing.assert_allclose(found, w @ x, atol=1e-12)
        monkeypatch.setattr(linalg, "_dtrmm", lambda: None)
        np.testing.assert_allclose(whiten(w, x.copy()), w @ x, atol=1e-12)
        monkeypatch.undo()


def test_products_of_kernels_leave_the_lock_to_other_threads() -> None:
    """NumPy's ``@`` holds it during one product of matrices (measured); ``np.dot`` does not."""
    folder = Path(kernels.__file__).parent
    for name in ("mixture.py", "whitened.py", "nearest.py"):
        nodes = ast.walk(ast.parse((folder / name).read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.MatMult) for node in nodes), name
