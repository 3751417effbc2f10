"""The other protections over Flower; and that the search for secrets finds one that gets out."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from privem import load
from privem.federation.wire.codec import decode

from .conftest import EXACT, Stage
from .search import Search

pytestmark = pytest.mark.slow
PRIVATE = "privem federate run fed/server -k 2 --epsilon 1 --n-iter 1 -o private.json --json"


@pytest.fixture(scope="module", params=["encrypted", "plain"])
def other(request, tmp_path_factory, zygote):
    found = Stage(tmp_path_factory.mktemp(request.param) / "searched", zygote)
    found.folder.mkdir()
    found.protection = request.param
    found.federation(terms=f"--protection {request.param}")
    yield found
    found.close()


def test_exact_and_private(other):
    summary = json.loads(other.do(PRIVATE))
    assert summary["protection"] == other.protection
    assert summary["epsilon"] == 1.0
    accounts = [other.do(f"privem federate status fed/{name} --json") for name in other.parties]
    assert all(0.5 < json.loads(facts)["epsilon_spent"] <= 1.0 for facts in accounts)
    other.do(EXACT)
    other.same_as_central()
    for name in other.parties:
        said = other.do(f"privem federate status fed/{name}")
        assert re.search(r"exact answers: [1-9]\d*; no finite epsilon", said)


def test_persons(stage):
    stage.federation(epsilon="--epsilon 1 --groups who", terms="--persons", persons=True)
    stage.do(PRIVATE)
    statement = load(stage.folder / "private.json").privacy_
    assert statement.unit == "person"
    assert "hidden as k persons are" in statement.parties
    # A party that does not say whose its rows are takes no part.
    said = stage.do(f"privem federate party fed/{stage.parties[0]} {stage.parties[0]}.csv", code=7)
    assert "runs already" in said
    stage.kill(stage.parties[0])
    said = stage.do(f"privem federate party fed/{stage.parties[0]} {stage.parties[0]}.csv", code=2)
    assert "its rows have no persons (groups=)" in said


@pytest.mark.parametrize("noise", ["all", "none"])
def test_a_sum_that_leaves_without_noise_is_found(other, noise):
    """The control of the search: nothing hides what a party of ``plain`` says but its noise."""
    hidden = other.folder.parent / f"hidden {noise}"
    deeds = [
        {"do": "record", "folder": str(other.folder / f"messages {noise}")},
        {"do": "secrets", "folder": str(hidden)},
    ]
    other.party("west", *deeds, *([{"do": "noiseless"}] if noise == "none" else []))
    other.connected()
    other.do(PRIVATE)
    secrets = [decode(path.read_bytes())[1] for path in hidden.iterdir()]
    before = [
        s["before"][s["before"] != s["after"]] if noise == "all" else s["before"] for s in secrets
    ]
    search = Search(before, [s["sums"] for s in secrets])
    assert len(search) > 20
    messages = (other.folder / f"messages {noise}").glob("*-out")
    found = sum(search.files(messages).values())
    if noise == "all" or other.protection == "encrypted":
        assert found == 0
    else:
        assert found >= np.unique(np.concatenate(before)).size / 2
