"""Who is whose peer: all pairs, or a random regular graph that everybody computes from the seed.

Above 64 parties a party shares secrets and masks with ``degree`` peers only. The graph is an
expander with its parties in random order:

1. a circle on which everybody knows the ``degree`` nearest,
2. its edges switched in pairs (a-b, c-d become a-d, c-b) many times, which keeps it regular,
3. parties put onto the places in a uniformly random order.

Step 3 alone makes a party's peers a uniformly random set, whatever 1 and 2 did; how well 1 and 2
did is not assumed but measured (`spectral_bound`). The graph is fixed for the life of a federation,
so that a server cannot draw again until it likes the outcome.

What such a graph promises against an active server (`check_neighbourhoods`; the proof is in
``docs/proofs/masked.md``): whatever the server does, it opens one sum at most, and that sum
contains the inputs of at least so many honest parties. It rests on two facts about the graph:

- *nobody is surrounded*: the colluders were chosen without looking at the graph, so the number of
  them among a party's peers is hypergeometric; `surrounded` bounds it for all parties at once;
- *nobody can be cut off*: the expander mixing lemma with the graph's measured eigenvalue, for sets
  of parties that the server would like to sum separately, wherever it lets parties drop out.
"""

from __future__ import annotations

import math

import numpy as np

from ...primitives import derive, expand

FAILURE = 2.0**-40  # Chance, over the graph's seed, that some party is surrounded.
_SWITCHES_PER_EDGE = 4
_DENSE = 2000  # Up to so many parties all eigenvalues are computed.


def neighbourhoods(seed: bytes, n: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return everybody's peers, in increasing order; the same on every machine.

    Examples
    --------
    >>> neighbourhoods(b"", 4, 3)[1]
    (0, 2, 3)
    >>> peers = neighbourhoods(bytes(32), 100, 10)
    >>> {len(mine) for mine in peers}, all(i in peers[j] for i in range(100) for j in peers[i])
    ({10}, True)
    """
    if degree == n - 1:
        everybody = range(n)
        return tuple(tuple(j for j in everybody if j != i) for i in everybody)
    near, far = _switched(seed, n, degree)
    place = np.argsort(expand(derive(seed, b"", b"order of the parties"), n), kind="stable")
    peers: list[list[int]] = [[] for _ in range(n)]
    for a, b in zip(place[near].tolist(), place[far].tolist(), strict=True):
        peers[a].append(b)
        peers[b].append(a)
    return tuple(tuple(sorted(mine)) for mine in peers)


def _switched(seed: bytes, n: int, degree: int) -> tuple[list[int], list[int]]:
    """Both ends of every edge of a simple regular graph, well shuffled."""
    near = [i for i in range(n) for _ in range(degree // 2)]
    far = [(i + step) % n for i in range(n) for step in range(1, degree // 2 + 1)]
    present = {min(a, b) * n + max(a, b) for a, b in zip(near, far, strict=True)}
    m = len(near)
    picks = expand(derive(seed, b"", b"switches"), _SWITCHES_PER_EDGE * m)
    firsts = ((picks >> np.uint64(32)) % np.uint64(m)).tolist()
    seconds = ((picks & np.uint64(2**31 - 1)) % np.uint64(m)).tolist()
    turned = ((picks >> np.uint64(31)) & np.uint64(1)).tolist()
    for e, f, turn in zip(firsts, seconds, turned, strict=True):
        a, b = near[e], far[e]
        c, d = (far[f], near[f]) if turn else (near[f], far[f])
        one = a * n + d if a < d else d * n + a
        other = b * n + c if b < c else c * n + b
        if a == d or b == c or one == other or one in present or other in present:
            continue
        present.remove(a * n + b if a < b else b * n + a)
        present.remove(c * n + d if c < d else d * n + c)
        present.add(one)
        present.add(other)
        near[e], far[e], near[f], far[f] = a, d, c, b
    return near, far


def spectral_bound(peers: tuple[tuple[int, ...], ...]) -> float:
    """Return the largest absolute value of the graph's eigenvalues but the first (the degree).

    It is below 2 sqrt(degree - 1) and a little for a good graph; rounded up.
    """
    n, degree = len(peers), len(peers[0])
    rows = np.repeat(np.arange(n), degree)
    columns = np.concatenate([np.asarray(mine) for mine in peers])
    if n <= _DENSE:
        adjacency = np.zeros((n, n))
        adjacency[rows, columns] = 1
        values = np.linalg.eigvalsh(adjacency)
        return float(max(values[-2], -values[0])) + 1e-6
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import eigsh

    sparse = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    start = np.random.default_rng(0).standard_normal(n)
    values = np.sort(eigsh(sparse, k=3, which="LM", v0=start, return_eigenvectors=False, tol=1e-8))
    rest = [v for v in values if v < degree - 1e-4]
    return float(np.max(np.abs(rest))) + 1e-4


def surrounded(n: int, degree: int, colluders: int) -> int:
    """Return a bound on the colluders among any party's peers, with failure chance `FAILURE`.

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
