"""A server that cheats with rounds or questions opens no sum: masks are of one of each."""

import numpy as np
import pytest

from privem.federation.masked import (
    Identity,
    MaskedParty,
    Refused,
    Roster,
    Scheme,
    TooFewParties,
    masked_sum,
)
from privem.federation.masking import _run


def _drive(parties, protocol, inputs):
    mail = next(protocol)
    try:
        while True:
            replies = {}
            for name, message in mail.items():
                if name not in parties:
                    continue
                try:
                    replies[name] = parties[name].handle(message, lambda name=name: inputs[name])
                except Refused:
                    continue
            mail = protocol.send(replies)
    except StopIteration as end:
        return end.value


def _scheme():
    keys = {name: Identity.new() for name in "abcd"}
    return keys, Scheme.of(Roster("trial", {name: key.public for name, key in keys.items()}))


def test_parties_asked_different_questions_are_never_added_up():
    keys, scheme = _scheme()
    inputs = {name: np.array([1, 2]) for name in keys}
    asked = dict.fromkeys(keys, b"one question") | {"a": b"another"}
    parties = {
        name: MaskedParty(key, scheme, _run("agreed", "run", 1, asked[name]), 1)
        for name, key in keys.items()
    }
    with pytest.raises(TooFewParties):
        _drive(
            {"a": parties["a"]},
            masked_sum(scheme, _run("agreed", "run", 1, b"another"), 1, 2),
            inputs,
        )
    total, counted = _drive(
        parties, masked_sum(scheme, _run("agreed", "run", 1, b"one question"), 1, 2), inputs
    )
    assert counted == ["b", "c", "d"]
    assert total.tolist() == [3, 6]


def test_a_second_sum_in_the_same_round_is_refused():
    """Of two sums over different survivors the difference would be one party's own numbers."""
    keys, scheme = _scheme()
    inputs = {name: np.array([1, 2]) for name in keys}
    run = _run("agreed", "run", 1, b"question")
    parties = {name: MaskedParty(key, scheme, run, 1) for name, key in keys.items()}
    assert _drive(parties, masked_sum(scheme, run, 1, 2), inputs)[1] == list("abcd")
    with pytest.raises(TooFewParties):
        _drive(parties, masked_sum(scheme, run, 2, 2), inputs)
    some = {name: parties[name] for name in "bcd"}
    with pytest.raises(TooFewParties):
        _drive(some, masked_sum(scheme, run, 1, 2, attempt=1), inputs)
