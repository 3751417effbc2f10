"""Seeded noise: nothing that is made with it looks like a promise, and nothing of it remains."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import privem
from privem.ledger import Budget

X = np.random.default_rng(0).normal(size=(3000, 2))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("experiments")
def test_nothing_made_with_seeded_noise_is_a_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reproduction.noise import insecure_seeded_noise

    urandom, path = os.urandom, tmp_path / "budget.db"
    with privem.Ledger(path, dataset="people", budget=Budget(9, 1e-4)):
        pass
    monkeypatch.setenv("PRIVEM_LEDGER", str(path))
    with insecure_seeded_noise(b"the same in every run"):
        model = privem.KMeans(2, bounds=9.0).fit(X)
        candidates = [privem.GaussianMixture(k, bounds=9.0) for k in (1, 2)]
        chosen = privem.select(candidates, X, epsilon=4.0)
        mean = privem.private_mean(X, epsilon=4.0, tau=5.0)
        privem.KMeans(2, bounds=9.0, ledger=path).fit(X)
    assert not hasattr(model, "privacy_")
    chosen.best_.save(tmp_path / "model.json")
    for statement in (privem.load(tmp_path / "model.json").privacy_, mean.privacy):
        assert "nobody is protected" in statement.public["noise"]
        assert "nobody is protected" in str(statement)
    with privem.Ledger(path, dataset="people") as ledger:
        assert not ledger.history()
    assert os.urandom is urandom
    assert os.environ["PRIVEM_LEDGER"] == str(path)
    mean = privem.private_mean(X, epsilon=4.0, tau=5.0, ledger=False)
    assert "noise" not in mean.privacy.public


@pytest.mark.usefixtures("experiments")
def test_other_threads_keep_their_own_noise() -> None:
    """A fit that they began before has a statement like any other."""
    from reproduction.noise import insecure_seeded_noise

    def both() -> tuple[bytes, bytes]:
        with insecure_seeded_noise(b"the same in every run"), ThreadPoolExecutor(1) as pool:
            return os.urandom(16), pool.submit(os.urandom, 16).result()

    (ours, theirs), (again, others) = both(), both()
    assert ours == again
    assert theirs != others
