"""federation_masked: one masked sum, CPU time of all parties and the server together.

Bytes are what one party sends and receives in a round, on average. The last case is the one with a
floor: 1,000 parties with 1,000 values each finish ten rounds within ten minutes of one core, some
dropping out on the way. The first round, in which keys are made and checked, has its own column.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from privem.federation.protections.masked import Identity, MaskedParty, MaskedSums, Roster, Scheme
from privem.federation.protections.masked.messages import Phase

from .table import show, verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<24",
    "peers": ">5.0f",
    "rounds": ">6.0f",
    "first, ms": ">9.1f",
    "CPU ms/round": ">12.1f",
    "ms/party": ">8.2f",
    "sent kB": ">8.1f",
    "received kB": ">11.1f",
    "CPU s": ">7.1f",
    "wall s": ">7.1f",
    "ok": "<5",
}
RUN = b"benchmark"
LIMIT = 600.0  # Seconds, issue 5.


class Federation:
    """Parties in this process, and a count of what they say and hear."""

    def __init__(self, n: int, size: int, dropouts: int) -> None:
        keys = {f"party {i:05d}": Identity.new() for i in range(n)}
        public = {name: key.public for name, key in keys.items()}
        self.scheme = Scheme.of(Roster("benchmark", public, os.urandom(32)))
        self.server = MaskedSums(self.scheme, RUN)
        self.parties = {name: MaskedParty(key, self.scheme, RUN) for name, key in keys.items()}
        self.rng = np.random.default_rng(0)
        self.inputs = {name: self.rng.integers(-(2**40), 2**40, size) for name in keys}
        self.size = size
        self.dropouts = dropouts
        self.sent = self.received = 0
        self.rounds = 0

    def round(self) -> None:
        """One sum, checked; a few parties fall silent before their inputs, a few after."""
        names = list(self.parties)
        gone = self.rng.choice(names, self.dropouts, replace=False).tolist()
        early, late = gone[::2], gone[1::2]
        server = self.server.sum(self.rounds, self.size, patience=0)
        requests = next(server)
        while True:
            phase = Phase(next(iter(requests.values()))[5])
            replies = {}
            for name, message in requests.items():
                if phase >= (Phase.SURVIVORS if name in late else Phase.INPUT) and name in gone:
                    continue
                reply = self.parties[name].handle(message, lambda name=name: self.inputs[name])
                self.received += len(message)
                self.sent += len(reply)
                replies[name] = reply
            try:
                requests = server.send(replies)
            except StopIteration as end:
                total, counted = end.value
                break
        assert set(counted) == set(names) - set(early)
        assert (total.view(np.int64) == sum(self.inputs[name] for name in counted)).all()
        self.rounds += 1


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    cases = [(3, 100, 0, 20), (10, 100, 0, 20), (10, 13_260, 0, 20), (10, 13_260, 2, 20)]
    cases.append((100, 1_000, 2, 2))
    if not quick:
        cases += [(64, 1_000, 0, 3), (1_000, 1_000, 10, 10)]
    for n, size, dropouts, n_rounds in cases:
        federation = Federation(n, size, dropouts)
        began = time.perf_counter()
        times = []
        for _ in range(n_rounds):
            start = time.process_time()
            federation.round()
            times.append(time.process_time() - start)
        seconds = time.perf_counter() - began
        each = float(np.median(times[1:]))
        yield {
            "case": f"{n:,} x {size:,}" + (f", {dropouts} drop" if dropouts else ""),
            "peers": federation.scheme.degree,
            "rounds": n_rounds,
            "first, ms": times[0] * 1e3,
            "CPU ms/round": each * 1e3,
            "ms/party": each * 1e3 / n,
            "sent kB": federation.sent / n / federation.rounds / 1e3,
            "received kB": federation.received / n / federation.rounds / 1e3,
            "CPU s": sum(times),
            "wall s": seconds,
            "ok": verdict(sum(times) < LIMIT) if n == 1_000 else None,
        }


if __name__ == "__main__":
    import sys

    show(__doc__, COLUMNS, rows("--quick" in sys.argv))
