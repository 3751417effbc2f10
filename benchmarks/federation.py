"""federation: one round of a federated fit, CPU time of all parties and the server together.

One exact E-step of a mixture with few rows; medians over rounds, the ways taking turns. "of it
protection" is what is left without the time of "plain", whose rounds hold the E-step, the question
and its checks, and no protection at all. Keys of "encrypted" are made once a run, before what is
measured; "ckks", the protocol of Abu Hussein and Rodel 2023, makes them in every round. Bytes are
what one party sends in a round, on average (who makes keys or opens a sum sends more). "bounds" is
"encrypted" with the public bounds that "masked" needs anyway. Floors: "encrypted" at least 5x
cheaper than "ckks" at every size, "masked" at least 5x cheaper than "encrypted" for 13,260
values and 10 parties. They are floors of what protection costs ("of protection"): the E-step in a
round costs what the rows are worth, whatever protects its sums. "ratio" is of whole rounds, with
few rows.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from privem.core import Stage
from privem.federation import Federation, InProcess, Party
from privem.models.gaussian_mixture.model import Mixture, MixtureQuery
from privem.noise.exact import Exact

from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<36",
    "values": ">6.0f",
    "CPU ms/round": ">12.1f",
    "of it protection": ">16.1f",
    "sent kB": ">8.1f",
    "cheaper than": "<12",
    "ratio": ">6.1f",
    "of protection": ">13.1f",
    "ok": "<5",
}
FLOOR = 5.0


class _Counted(InProcess):
    sent = 0

    def exchange(self, mail: Any) -> dict[str, bytes]:
        replies = super().exchange(mail)
        self.sent += sum(len(message) for message in replies.values())
        return replies


BOUNDED = {"bounds": (-1.0, 1.0), "rows": 10**6}
WAYS: dict[str, dict[str, Any]] = {
    "ckks": {"protection": "ckks"},
    "encrypted": {"protection": "encrypted"},
    "encrypted, bounds": {"protection": "encrypted", **BOUNDED},
    "masked": {"protection": "masked", **BOUNDED},
    "plain": {"protection": "plain"},
}
RIVALS = {"encrypted": "ckks", "encrypted, bounds": "ckks", "masked": "encrypted"}


class _Way:
    """A federation that is asked the same again and again."""

    def __init__(self, k: int, d: int, parties: int, terms: dict[str, Any]) -> None:
        rng = np.random.default_rng(0)
        rows = [rng.uniform(-1, 1, (20, d)) for _ in range(parties)]
        members = [Party(X, f"party {i}", n_jobs=1) for i, X in enumerate(rows)]
        self.federation = Federation(members, minimum=2, **terms)
        self.transport = self.federation.transport = _Counted(members)
        covariances = np.stack([np.eye(d)] * k)
        mixture = Mixture("full", np.full(k, 1 / k), rng.uniform(-1, 1, (k, d)), covariances)
        self.stage = Stage(MixtureQuery(mixture, np.zeros(d)), Exact(), "E-step")
        self.federation.begin({})
        statistics = self.federation.release(self.stage).statistics  # keys, tables, caches
        self.values = sum(leaf.size for leaf in vars(statistics).values() if leaf is not None)
        self.times: list[float] = []
        self.transport.sent = 0

    def round(self) -> None:
        began = time.process_time()
        self.federation.release(self.stage)
        self.times.append(time.process_time() - began)


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """Rows of the table."""
    sizes = [(2, 2, 3), (6, 2, 10)] if quick else [(k, 2, c) for k in (2, 6) for c in (3, 6, 10)]
    for k, d, parties in [*sizes, (10, 50, 10)]:
        ways = {name: _Way(k, d, parties, terms) for name, terms in WAYS.items()}
        for _ in range(3 if quick else 9):
            for way in ways.values():
                way.round()
        cost = {name: statistics.median(way.times) for name, way in ways.items()}
        for name, way in ways.items():
            row: dict[str, Any] = {
                "case": f"K={k} d={d}, {parties} parties, {name}",
                "values": way.values,
                "CPU ms/round": 1e3 * cost[name],
                "sent kB": way.transport.sent / len(way.times) / parties / 1e3,
            }
            if name != "plain":
                row["of it protection"] = 1e3 * (cost[name] - cost["plain"])
            if rival := RIVALS.get(name):
                row |= {"cheaper than": rival, "ratio": cost[rival] / cost[name]}
                net = (cost[rival] - cost["plain"]) / (cost[name] - cost["plain"])
                row["of protection"] = net
                if name != "masked" or d == 50:
                    row["ok"] = verdict(net >= FLOOR)
            yield row
