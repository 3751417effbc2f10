"""federation: one round of a federated fit, CPU time of all parties and the server together.

One exact E-step of a mixture with few rows, so that what is measured is the protection; medians
over rounds. Keys of "ckks" are made once a run, before what is measured; the way of paper 001 makes
them in every round. Bytes are what one party sends in a round, on average (who makes keys or opens
a sum sends more). "bounds" is "ckks" with the public bounds that "masked" needs anyway: integers
take an eighth of the room. Floors: "ckks" at least 5x cheaper than 001's way at every size,
"masked" at least 5x cheaper than "ckks" for 13,260 values and 10 parties.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from privem.core import Stage
from privem.federation import Federation, InProcess, Party
from privem.models.gaussian_mixture import Mixture, MixtureQuery
from privem.noise.exact import Exact

from .table import verdict

__all__ = ["COLUMNS", "rows"]

COLUMNS = {
    "case": "<36",
    "values": ">6.0f",
    "CPU ms/round": ">12.1f",
    "sent kB": ">8.1f",
    "cheaper than": "<12",
    "ratio": ">6.1f",
    "ok": "<5",
}
FLOOR = 5.0


class _Counted(InProcess):
    sent = 0

    def exchange(self, mail: Any) -> dict[str, bytes]:
        replies = super().exchange(mail)
        self.sent += sum(len(message) for message in replies.values())
        return replies


def _round(k: int, d: int, parties: int, rounds: int, **terms: Any) -> tuple[float, float, int]:
    rng = np.random.default_rng(0)
    members = [Party(rng.uniform(-1, 1, (20, d)), f"party {i}", n_jobs=1) for i in range(parties)]
    federation = Federation(members, minimum=2, **terms)
    transport = federation.transport = _Counted(members)
    covariances = np.stack([np.eye(d)] * k)
    mixture = Mixture("full", np.full(k, 1 / k), rng.uniform(-1, 1, (k, d)), covariances)
    stage = Stage(MixtureQuery(mixture, np.zeros(d)), Exact(), "E-step")
    federation.begin({})
    release = federation.release(stage)  # keys, tables, caches
    times, transport.sent = [], 0
    for _ in range(rounds):
        began = time.process_time()
        release = federation.release(stage)
        times.append(time.process_time() - began)
    values = sum(leaf.size for leaf in vars(release.statistics).values() if leaf is not None)
    return statistics.median(times), transport.sent / rounds / parties, values


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """Rows of the table."""
    sizes = [(2, 2, 3), (6, 2, 10)] if quick else [(k, 2, c) for k in (2, 6) for c in (3, 6, 10)]
    bounded = {"bounds": (-1.0, 1.0), "rows": 10**6}
    for k, d, parties in [*sizes, (10, 50, 10)]:
        case = f"K={k} d={d}, {parties} parties"
        before: dict[str, float] = {}
        for name, terms in {
            "001's way": {"protection": "ckks", "paper": True},
            "ckks": {"protection": "ckks"},
            "ckks, bounds": {"protection": "ckks", **bounded},
            "masked": {"protection": "masked", **bounded},
            "plain": {"protection": "plain"},
        }.items():
            seconds, sent, values = _round(k, d, parties, 3 if quick else 7, **terms)
            row: dict[str, Any] = {
                "case": f"{case}, {name}",
                "values": values,
                "CPU ms/round": 1e3 * seconds,
                "sent kB": sent / 1e3,
            }
            rival = {"ckks": "001's way", "ckks, bounds": "001's way", "masked": "ckks"}.get(name)
            if rival is not None:
                row |= {"cheaper than": rival, "ratio": before[rival] / seconds}
                if name != "masked" or d == 50:
                    row["ok"] = verdict(row["ratio"] >= FLOOR)
            before[name] = seconds
            yield row
