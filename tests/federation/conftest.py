import warnings

import numpy as np
import pytest

from privem.federation import Federation, InProcess, Party


@pytest.fixture(scope="session")
def blobs():
    """600 records in three groups of unequal size, shuffled."""
    rng = np.random.default_rng(5)
    groups = [
        rng.normal(0, 1, (300, 2)),
        rng.normal(5, 1.5, (200, 2)),
        rng.normal((-4, 6), 0.7, (100, 2)),
    ]
    X = np.vstack(groups)
    rng.shuffle(X)
    return X


def split(X, how):
    """Rows cut into parties: every row is in exactly one of them."""
    match how:
        case "even":
            return [X[i::4] for i in range(4)]
        case "one row each":
            return [row[None] for row in X]
        case "one empty":
            return [X[:0], *np.array_split(X, 3)]
        case "unequal":
            return [X[:1], X[1:3], X[3:]]
    raise ValueError(how)


def federate(parts, protection="plain", *, party=None, transport=InProcess, **terms):
    parties = [Party(rows, f"party {i}", **(party or {})) for i, rows in enumerate(parts)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "protection='ckks'")
        federation = Federation(parties, protection=protection, **terms)
    federation.transport = transport(parties)
    return federation


class Watched(InProcess):
    """Keeps every message, both ways."""

    def __init__(self, parties):
        super().__init__(parties)
        self.seen: list[bytes] = []

    def exchange(self, mail):
        replies = super().exchange(mail)
        self.seen += [*mail.values(), *replies.values()]
        return replies
