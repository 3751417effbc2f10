"""A protection is one module of ``federation/protections``: nothing else lists or compares them."""

import sys
from dataclasses import fields

import numpy as np
import pytest

from privem import KMeans
from privem.federation import Agreement, Card, Federation, Party, protections
from privem.federation.party.memory import Keys

CARDS = tuple(Card(name) for name in "abcd")

MIRROR = """
from privem.federation.protections.plain import Plain

class Mirror(Plain):
    trust = "The server sees everything twice."
    keys = ("box",)
    shares_noise = True

PROTECTION = Mirror()
"""


@pytest.mark.parametrize("name", protections.names())
def test_every_protection_says_what_it_is(name):
    found = protections.protection(name)
    assert found is Agreement(CARDS, name).kind
    assert found.trust.endswith(".")
    assert set(found.keys) <= {field.name for field in fields(Keys)}
    assert found.trust in Agreement(CARDS, name).trust()
    side = found.party_side()
    assert found.party_side(side.state()).state() == side.copy().state() == side.state()


def test_a_new_protection_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "mirror.py").write_text(MIRROR)
    monkeypatch.setattr(protections, "__path__", [*protections.__path__, str(tmp_path)])
    protections.names.cache_clear()
    try:
        assert "mirror" in protections.names()
        X = np.random.default_rng(0).normal(size=(40, 2))
        parties = [Party(X[i::4], str(i)) for i in range(4)]
        federation = Federation(parties, protection="mirror")
        assert all(card.box and not card.signing for card in federation.agreement.members)
        assert federation.agreement.share == 3
        assert "everything twice" in federation.trust()
        KMeans(2, epsilon=None).fit(federation)
        KMeans(2, epsilon=1.0, bounds=(-5.0, 5.0)).fit(federation)
    finally:
        protections.names.cache_clear()
        sys.modules.pop(f"{protections.__name__}.mirror", None)


def test_sharing_over_a_sparse_graph_is_said_of_masked_sums_alone():
    many = tuple(Card(str(i)) for i in range(65))
    assert "shares masks" in Agreement(many, "masked").trust()
    assert "shares masks" not in Agreement(many, "encrypted", collusion="none").trust()
