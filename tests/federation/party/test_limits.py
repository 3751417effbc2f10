"""Sizes: small questions that would cost much, and states that grow."""

import dataclasses

import numpy as np
import pytest

from privem.blocks.histograms import CountQuery
from privem.core import Spent
from privem.federation import Party
from privem.federation.wire.codec import (
    MAGIC,
    MAX_BYTES,
    MAX_HEADER,
    VERSION,
    BadMessage,
    decode,
    encode,
)
from privem.federation.wire.messages import RunTerms
from privem.federation.wire.queries import check_query
from privem.models.categorical_mixture.model import Classes, ClassQuery
from privem.models.categorical_mixture.pairs import PairsQuery

from .test_party import TERMS, Server, asked, refused


def framed(body):
    header = b'{"arrays":[],"body":' + body + b',"kind":"request"}'
    return MAGIC + bytes([VERSION]) + len(header).to_bytes(4, "little") + header


@pytest.mark.parametrize("part", [b"[]", b'{"=":{}}'])
def test_a_header_has_a_limit_of_its_own(part):
    """Of JSON a byte becomes a hundred in memory."""
    most = MAX_HEADER // len(part)
    few, many = (framed(b"[" + b",".join([part] * n) + b"]") for n in (1000, most))
    assert len(decode(few)[1]) == 1000
    with pytest.raises(BadMessage, match="header is larger"):
        decode(many)
    assert len(decode(many, own=True)[1]) == most


def test_arrays_may_be_larger_than_a_header():
    message = encode("x", np.zeros(2**18))
    assert len(message) > MAX_HEADER
    assert decode(message)[1].shape == (2**18,)


def test_a_party_reads_its_own_state_however_large(blobs):
    server = Server(blobs)
    assert server.begin()[0]
    assert server.ask(asked(CountQuery()))[0]
    party = server.party
    party._memory = dataclasses.replace(party._memory, numbers=np.zeros(MAX_BYTES // 8, np.uint64))
    spent = Spent("x", "gaussian", 1, 1.0, 0.0, 2.0**-10, 2**24)
    party._budget.spent = tuple((run, spent) for run in range(8_000))
    state = party.state()
    assert len(state) > MAX_BYTES
    assert int.from_bytes(state[5:9], "little") > MAX_HEADER
    assert Party(blobs, "party 0").restore(state).state() == state


@pytest.mark.parametrize("protection", ["masked", "encrypted"])
def test_sides_read_their_own_state_however_large(blobs, protection):
    server = Server(blobs, protection)
    kinds = {"masked": "state", "encrypted": "secret"}
    empty = decode(server.agreement.kind.party_side().state())
    large = encode(empty[0], {**empty[1], kinds[protection]: bytes(MAX_BYTES)})
    assert server.agreement.kind.party_side(large).state() == large


def test_categories_have_a_limit_whatever_is_asked_of_them():
    """Whoever could not ask for pairs cannot ask for classes either: a block holds them all."""
    for most, sound in ((2896, True), (2897, False), (2**18, False)):
        sizes = (most - 2, 1, 1)
        classes = Classes(np.ones(1), np.full((1, most), 0.5))
        for query in (ClassQuery(classes, sizes, 1.0), PairsQuery(sizes, 1.0)):
            if sound:
                check_query(query, 3, True)
            else:
                with pytest.raises(BadMessage):
                    check_query(query, 3, True)


def test_runs_in_which_nothing_was_said_are_not_kept(blobs):
    server = Server(blobs)
    sizes = []
    for i in range(200):
        server.run = f"{i:0128d}"
        assert server.begin()[0]
        assert refused(server.begin(failure=1e-9), "replay")
        server.plan = RunTerms(TERMS).hash
        sizes.append(len(server.party.state()))
    assert max(sizes) <= min(sizes) + 20  # digits of what is counted
    assert server.ask(asked(CountQuery()))[0]
    server.run = "the next"
    assert server.begin()[0]
    server.run = f"{199:0128d}"
    assert refused(server.begin(failure=1e-9), "replay")


def test_runs_have_numbers_of_their_own(blobs):
    """Partitions are charged by run: two of one number would be priced as one."""
    server = Server(blobs)
    for i in range(6):
        server.run, server.plan = f"run {i}", RunTerms({}).hash
        assert server.begin()[0]
        if i % 2:
            assert server.ask(asked(CountQuery()))[0]
    assert len({run for run, _ in server.party._budget.spent}) == 3


def test_a_party_folder_reads_its_own_state_however_large(blobs, tmp_path):
    pytest.importorskip("flwr")
    from privem.federation.flower.folders import PartyFolder, new_party, new_server

    cards = [new_party(tmp_path / name, name) for name in "abc"]
    new_server(tmp_path / "server", cards, "localhost:9092", None, protection="plain")
    (tmp_path / "a" / "federation.json").write_bytes(
        (tmp_path / "server" / "federation.json").read_bytes()
    )
    folder = PartyFolder(tmp_path / "a")
    party = folder.party(blobs, None, 1e-6)
    spent = Spent("x", "gaussian", 1, 1.0, 0.0, 2.0**-10, 2**24)
    party._budget.spent = tuple((run, spent) for run in range(8_000))
    party._memory = dataclasses.replace(party._memory, numbers=np.zeros(MAX_BYTES // 8, np.uint64))
    folder.keep(party.state())
    assert PartyFolder(tmp_path / "a").party(blobs, None, 1e-6).state() == party.state()
