"""Questions of mixtures of regressions and of latent classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models.categorical_mixture.model import Classes, ClassQuery, PairsQuery
from ...models.regression_mixture.directions import ResidualDirections
from ...models.regression_mixture.model import Bounded, RegressionQuery, Regressions
from . import checks
from .checks import need

__all__ = ["FIELDS", "check"]

FIELDS: dict[type, tuple[str, ...]] = {
    RegressionQuery: ("state", "bounded"),
    Regressions: ("weights", "coefficients", "variances", "whitener", "centre"),
    Bounded: ("region", "weights", "cap_weight"),
    ResidualDirections: ("one", "region", "cap_weight"),
    ClassQuery: ("state", "sizes", "cap_weight"),
    Classes: ("weights", "profiles"),
    PairsQuery: ("sizes", "cap_weight"),
}


def check(query: Any, d: int, private: bool) -> bool:
    """Whether the query is one of these; raises unless it is then sound."""
    match query:
        case RegressionQuery(state=state, bounded=bounded):
            # Without bounds there is no sensitivity, and the likelihood beside the sums.
            need((bounded is not None) == private)
            _regressions(state, d, private)
            k = len(state.weights)
            checks.held(k, query.block_rows, k * (1 + d + d * d) + 1)
            if bounded is not None:
                need(isinstance(bounded, Bounded))
                checks.region(bounded.region, d)
                checks.moment_weights(bounded.weights)
                checks.ordinary(bounded.cap_weight)
        case ResidualDirections(one=one, region=region):
            need((region is not None) == private)
            _regressions(one, d, private)
            need(len(one.weights) == 1)
            checks.ordinary(query.cap_weight)
            if region is not None:
                checks.region(region, d)
        case ClassQuery(state=state, sizes=sizes):
            _coded(query, d, private)
            need(isinstance(state, Classes))
            p = sum(sizes)
            checks.table(state.profiles, p)
            checks.array(state.weights, (len(state.profiles),))
            need((state.profiles > 0).all() and (state.weights > 0).all())
            need(state.profiles.size < checks.MOST_NUMBERS)
            checks.held(len(state.weights), query.block_rows, state.profiles.size + 1)
        case PairsQuery(sizes=sizes):
            _coded(query, d, private)
        case _:
            return False
    return True


def _regressions(state: Any, d: int, private: bool) -> None:
    """K regressions of the last of d columns on the others."""
    need(isinstance(state, Regressions) and d > 1)
    checks.table(state.coefficients, d)
    k = len(state.coefficients)
    checks.array(state.weights, (k,))
    checks.array(state.variances, (k,))
    checks.array(state.whitener, (d - 1, d - 1))
    checks.array(state.centre, (d - 1,))
    need((state.weights > 0).all() and (state.variances > 0).all())
    if private:
        # No residual overflows before it is bounded.
        checks.magnitudes(state.variances, positive=True)
        for part in (state.coefficients, state.whitener, state.centre):
            checks.magnitudes(part)
        need(np.isfinite(state.constants).all())


def _coded(query: Any, d: int, private: bool) -> None:
    """Categories per column; a cap, without which weights would have no bound."""
    sizes = query.sizes
    need(isinstance(sizes, tuple) and len(sizes) == d)
    need(all(type(size) is int and 0 < size < checks.MOST_NUMBERS for size in sizes))
    # Fits ask for pairs first: no more categories than those allow, whatever is asked for.
    need(sum(sizes) ** 2 <= 2 * checks.MOST_NUMBERS)
    need((query.cap_weight is not None) == private)
    if query.cap_weight is not None:
        checks.ordinary(query.cap_weight)
