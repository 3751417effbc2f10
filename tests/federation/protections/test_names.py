"""Protections are called what they are, and nothing old is read under a new meaning."""

import json

import numpy as np
import pytest

from privem import KMeans
from privem.federation import Agreement, Card, Federation, Journal, Party
from privem.federation.wire.codec import MAGIC, BadMessage
from privem.federation.wire.messages import Request

from ..conftest import federate, split

CARDS = tuple(Card(name) for name in "abc")
OLD = {  # as version 1 wrote it
    "members": [{"name": name, "box": "", "signing": ""} for name in "abc"],
    "protection": "ckks",
    "dropouts": 0,
    "colluders": 0,
    "minimum": 3,
    "collusion": "some",
    "low": None,
    "high": None,
    "rows": None,
    "weighted": False,
    "paper": False,
    "seed": "",
    "target": False,
    "categories": None,
    "persons": False,
}


def aged(message):
    """The same bytes, as if format 1 had written them."""
    assert message[:4] == MAGIC
    return message[:4] + b"\x01" + message[5:]


@pytest.mark.parametrize(("protection", "scheme"), [("encrypted", "bfv"), ("ckks", "ckks")])
def test_the_scheme_is_what_its_name_says(blobs, protection, scheme):
    import tenseal

    federation = federate(split(blobs[:40], "even"), protection)
    KMeans(2, epsilon=None, max_iter=1).fit(federation)
    context = tenseal.context_from(federation.transport.parties["party 0"]._side._secret)
    assert context.seal_context().data.key_context_data().parms().scheme().name.lower() == scheme


def test_the_papers_scheme_is_marked_and_adds_no_noise(blobs):
    with pytest.warns(
        UserWarning, match="As Abu Hussein and Rodel .2023. print it.*give the secret key away"
    ):
        federation = Federation([Party(blobs[i::3], str(i)) for i in range(3)], protection="ckks")
    with pytest.raises(ValueError, match=r"Abu Hussein and Rodel.*for exact fits"):
        KMeans(2, epsilon=1.0, bounds=(-20.0, 20.0)).fit(federation)
    assert [party.spent for party in federation.transport.parties.values()] == [0.0] * 3
    with pytest.raises(ValueError, match="for protection='encrypted'"):
        Agreement(CARDS, "ckks", collusion="none")


def test_what_is_not_built_is_not_offered(blobs):
    with pytest.raises(ValueError, match=r"must be one of .'ckks', 'encrypted', 'masked', 'plain'"):
        federate(split(blobs, "even"), "threshold")


@pytest.mark.parametrize("change", [{}, {"version": 1}, {"protection": "masked"}, {"version": 3}])
def test_an_old_agreement_is_refused(change):
    values = json.loads(json.dumps(OLD | change))
    what = (
        "format 3" if change.get("version") == 3 else "'ckks' was the name of what is 'encrypted'"
    )
    with pytest.raises(ValueError, match=what):
        Agreement.from_dict(values)


def test_an_agreement_survives_json():
    agreement = Agreement(CARDS, "encrypted", rows=5.0)
    assert Agreement.from_dict(json.loads(json.dumps(agreement.to_dict()))) == agreement


def test_an_old_file_is_refused(tmp_path):
    from privem.federation.flower.folders import Terms

    body = {"privem": "federation", "version": 1, "agreement": OLD, "nodes": {}, "columns": None}
    (tmp_path / "federation.json").write_text(json.dumps(body))
    with pytest.raises(ValueError, match=r"federation\.json.*what is 'encrypted' now"):
        Terms.load(tmp_path)


def test_old_states_journals_and_messages_are_refused(blobs, tmp_path):
    federation = federate(split(blobs, "even"), "encrypted")
    party = federation.transport.parties["party 0"]
    with pytest.raises(BadMessage, match="what is 'encrypted' now"):
        Party(np.zeros((1, 2)), "party 0").restore(aged(party.state()))
    request = Request(federation.agreement.hash, "run", "", 0, 0, b"", b"").to_bytes()
    assert b"what is 'encrypted' now" in party.handle(aged(request))
    Journal(tmp_path)
    raw = (tmp_path / "rounds").read_bytes()
    old = aged(raw[40:])
    import hashlib

    (tmp_path / "rounds").write_bytes(raw[:8] + hashlib.sha256(old).digest() + old)
    with pytest.raises(BadMessage, match="what is 'encrypted' now"):
        Journal(tmp_path)
