"""Which components of a mixture to merge, so that fewer are left.

Components i and j of weights w_i and w_j are replaced by one of both weights that has the mean
parameters of both together. By the convexity of the Kullback-Leibler divergence the mixture loses
at most

    (w_i + w_j) H(ij) - w_i H(i) - w_j H(j)

nats a record, where H is the entropy of a component, up to what is linear in its mean parameters
(Runnalls 2007, "Kullback-Leibler approach to Gaussian mixture reduction"). The pair for which that
is least is merged, again and again. All of it is arithmetic on a mixture that was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ..linalg import Array

Groups = list[list[int]]


def alike(members: Iterable[int], components: int, part: Callable[[list[int]], float]) -> Groups:
    """Components in so many groups; ``part``: the weight of a group times its entropy.

    Examples
    --------
    >>> rates = np.array([1.0, 9.0, 1.1])
    >>> alike(range(3), 2, lambda group: len(group) * float(np.log(np.mean(rates[group]))))
    [[0, 2], [1]]
    """
    groups = [[k] for k in members]
    parts = [part(group) for group in groups]
    while len(groups) > components:
        together = {
            (i, j): part(groups[i] + groups[j]) for j in range(len(groups)) for i in range(j)
        }
        i, j = min(together, key=lambda pair: together[pair] - parts[pair[0]] - parts[pair[1]])
        parts[i] = together[i, j]
        groups[i] = groups[i] + groups.pop(j)
        parts.pop(j)
    return groups


def weights_of(weights: Array, groups: Groups) -> Array:
    """What groups weigh, in all one."""
    found = np.array([weights[group].sum() for group in groups])
    return np.asarray(found / found.sum())


def means_of(weights: Array, values: Array, groups: Groups) -> Array:
    """The mean of each group's rows.

    Examples
    --------
    >>> means_of(np.array([0.2, 0.2, 0.6]), np.array([[1.0], [3.0], [9.0]]), [[0, 1], [2]])
    array([[2.],
           [9.]])
    """
    return np.stack([weights[group] @ values[group] / weights[group].sum() for group in groups])
