"""The attacks on federated EM: what they recover is the record, and noise prevents it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tenseal")
pytestmark = pytest.mark.filterwarnings("ignore")

N = 24


@pytest.fixture
def attacks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The attacks, on made-up records of the shape of Parkinson's."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "experiments"))
    import abuhussein2023.attacks as module

    X = np.random.default_rng(0).normal(size=(N, 2)) * [1.0, 0.5] + [[2.0, 0.0]] * N
    X[: N // 3] -= 3.0
    monkeypatch.setattr(module, "records", lambda: X)
    yield module
    for name in [name for name in sys.modules if name.startswith("abuhussein2023")]:
        del sys.modules[name]


def test_the_server_of_federated_em_reads_every_record(attacks: Any) -> None:
    found = attacks.each_alone(0)
    assert found["recovered"] == N
    np.testing.assert_allclose(found["found"], attacks.records(), atol=1e-4)


def test_records_are_told_apart_from_what_they_are_not(attacks: Any) -> None:
    X = attacks.records()
    assert attacks.error(X[[2, 0, 1]], X[:3]).max() == 0
    assert attacks.error(X[3:6], X[:3]).max() > 0.1


@pytest.mark.parametrize("attacker", [0, 1])
def test_several_records_of_one_client_are_solved_for(attacks: Any, attacker: int) -> None:
    found = attacks.several(2, 1, attacks.ATTACKERS[attacker])
    assert found["recovered"] == 1
    assert found["error"] < 1e-5


def test_any_client_opens_what_another_sends(attacks: Any) -> None:
    assert attacks.with_the_key(0)["error"] < 1e-6


def test_log_likelihoods_give_a_record_away(attacks: Any) -> None:
    assert attacks.by_likelihood(1, 0)["error"] < 1e-6


def test_a_model_gives_the_last_record_away_unless_it_is_private(attacks: Any) -> None:
    assert attacks.from_the_model("masked", 0, None)["error"] < 1e-9
    from reproduction.noise import insecure_seeded_noise

    with insecure_seeded_noise(b"the same in every run"):
        assert attacks.from_the_model("masked", 0, 1.0)["error"] > 0.1
