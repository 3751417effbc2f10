"""Local differential privacy: each person's own device adds noise; the server only sums.

In a round the server publishes a :class:`~privem.core.Stage`: a query, which is a public frozen
value, and its noise. A device answers with :func:`message`, which depends on that person's record,
the stage and fresh random bytes, and on nothing else. Each person draws one round
(:mod:`privem.data.cells`), so everyone sends once. The server adds messages up (:class:`Server`)
and goes on as any fit does.

:class:`Crowd` simulates all of it in one process: a source whose rows are people.

Privacy: a message is an integer vector plus exact discrete Gaussian noise calibrated for *any two
records* (``neighbours="replace-one"`` with one record), rounded per person. It is
(epsilon, delta)-differentially private on its own, against everyone, the server included.

Examples
--------
>>> import numpy as np
>>> from privem.blocks.bounding import Clip
>>> from privem.blocks.robust_mean import RobustMeanQuery
>>> from privem.noise.discrete import Discrete
>>> query = RobustMeanQuery(np.zeros(2), np.ones(2), Clip(1.0))
>>> stage = Stage(query, Discrete(0.5, "replace-one", 1.0))
>>> server = Server(stage)
>>> for person in ([0.3, 0.1], [9.0, -2.0]):
...     server.add(message(stage, np.array(person)))
>>> server.people, server.release().statistics.total.shape
(2, (2,))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .core import Block, Release, Rows, Scratch, Stage
from .data.cells import CellRows, fresh_key
from .data.secret import contributions
from .noise.discrete import Discrete, encode
from .tree import Array

__all__ = ["Crowd", "Server", "message", "messages"]

# Numbers noised at a time: working memory of some tens of megabytes.
_BATCH = 2**18


def messages(stage: Stage, records: Array) -> NDArray[np.int64]:
    """What several people's devices send, one row each; a row depends on its record alone."""
    noise = _device_noise(stage)
    query: Any = stage.query
    exact = contributions(query, Block(np.asarray(records, dtype=np.float64)), Scratch())
    (spent,) = noise.price(query)  # one group, at the price of one record
    return encode(np.ascontiguousarray(exact.T), spent, noise.entropy)


def message(stage: Stage, record: Array) -> NDArray[np.int64]:
    """What one person's device sends in one round: integers, in steps of the stage's grid."""
    sent: NDArray[np.int64] = messages(stage, np.asarray(record, dtype=np.float64)[None])[0]
    return sent


def _device_noise(stage: Stage) -> Discrete:
    noise = stage.noise
    if not isinstance(noise, Discrete) or noise.neighbours != "replace-one" or noise.rows != 1:
        raise ValueError(
            "a device adds noise for its one record: Discrete(multiplier, 'replace-one', rows=1)"
        )
    return noise


class Server:
    """Adds up messages. It only ever sees these integers, never records."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.people = stage, 0
        self._total: NDArray[np.int64] | None = None

    def add(self, message: NDArray[np.int64]) -> None:
        """Add one message, or several (one per row)."""
        rows = np.atleast_2d(message)
        self.people += len(rows)
        total = rows.sum(axis=0)
        self._total = total if self._total is None else self._total + total

    def release(self) -> Release[Any]:
        """The sum, as a release. Its noise is the sum of all devices' noise."""
        query: Any = self.stage.query
        spent = self.stage.noise.price(query)
        total = np.zeros(query.size, dtype=np.int64) if self._total is None else self._total
        deviation = np.full(query.size, spent[0].deviation * math.sqrt(max(self.people, 1)))
        value = total.astype(np.float64) * spent[0].grid
        return Release(query, query.unravel(value), query.unravel(deviation), spent)


@dataclass(frozen=True)
class Crowd:
    """A source whose rows are people with devices: each answers the rounds of its own cell.

    Memory does not grow with the number of people.

    Parameters
    ----------
    rows : Rows
        One person per row, without weights.
    """

    rows: Rows
    key: bytes = field(default_factory=fresh_key, repr=False, compare=False)

    def release(self, stage: Stage) -> Release[Any]:
        """Sum the messages of everyone whose round it is."""
        query: Any = stage.query
        server, rows = Server(stage), self.rows
        if query.cell is not None:
            rows = CellRows(rows, self.key, query.cell.index, query.cell.count)
        for block in rows.blocks(max(1, min(query.block_rows, _BATCH // query.size))):
            if block.weight is not None:
                raise ValueError("local privacy has no sample weights: every person sends once")
            if len(block.X):
                server.add(messages(stage, block.X))
        return server.release()
