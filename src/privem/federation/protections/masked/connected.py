"""What a sparse graph of peers promises against an active server (``docs/proofs/masked.md``).

The promise: whatever the server does, it opens one sum at most, and that sum contains the inputs of
at least so many honest parties. It rests on two facts about the graph:

- *nobody is surrounded*: the colluders were chosen without looking at the graph, so the number of
  them among a party's peers is hypergeometric; ``surrounded`` bounds it for all parties at once;
- *nobody can be cut off*: the expander mixing lemma with the graph's measured eigenvalue, for sets
  of parties that the server would like to sum separately, wherever it lets parties drop out.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["FAILURE", "check_neighbourhoods", "surrounded"]

FAILURE = 2.0**-40  # Chance, over the graph's seed, that some party is surrounded.


def surrounded(n: int, degree: int, colluders: int) -> int:
    """Return a number of colluders that no party has more of among its peers, but for `FAILURE`.

    Examples
    --------
    >>> surrounded(1000, 60, 0), surrounded(1000, 60, 50) < 30
    (0, True)
    """
    from scipy.stats import hypergeom

    counts = np.arange(min(degree, colluders) + 1)
    log_tail = hypergeom.logsf(counts, n - 1, colluders, degree)
    fine = np.flatnonzero(log_tail + math.log(n) <= math.log(FAILURE))
    return int(counts[fine[0]]) if len(fine) else int(counts[-1])


def check_neighbourhoods(n: int, degree: int, quorum: int, colluders: int, second: float) -> int:
    """Return the least number of honest parties in an opened sum, or raise ``ValueError``.

    ``second`` bounds the graph's second eigenvalue. A set of m honest parties summed by itself
    needs, for each of them, ``quorum - 1`` peers in the set or among the colluders. Sizes m for
    which the graph has no room for so many edges are ruled out; what must remain is more than half.
    """
    worst = surrounded(n, degree, colluders)
    if 2 * quorum <= degree + 1 + worst:
        raise ValueError(
            f"a party may have {worst} of {colluders} colluders among its {degree} peers, too many "
            f"for a quorum of {quorum}: raise the degree or the quorum, or assume fewer colluders"
        )
    m = np.arange(1, n - colluders + 1)
    a, b = m / n, (m + colluders) / n
    # Edges from the set into itself and the colluders: e(A, A + C) per member.
    mixing = degree * b + second * np.sqrt(b / a * (1 - a) * (1 - b))
    # Edges inside the set alone, where no member has more than `worst` colluders beside it.
    inside = np.minimum(m - 1, degree * a + second * (1 - a))
    possible = (quorum - 1 <= mixing) & (quorum - 1 - worst <= inside)
    sizes = m[possible]
    least = int(sizes[0]) if len(sizes) else n - colluders
    if 2 * least <= n - colluders:
        raise ValueError(
            f"{colluders} colluders among {n} parties could help the server to sum {least} parties "
            f"by themselves (degree {degree}, quorum {quorum}): raise the degree or the quorum"
        )
    return least
