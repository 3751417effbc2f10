"""Questions of the symmetric models, of missing covariates and of a private mean."""

from __future__ import annotations

from typing import Any

from ...blocks.bounding import Clip, Robust
from ...blocks.cells import Cell
from ...blocks.directions import DirectionsQuery
from ...blocks.gradient import BoundedGradientQuery, Squares, reach
from ...blocks.gradients import (
    MissingCovariateGradient,
    SymmetricGradient,
    SymmetricRegressionGradient,
)
from ...blocks.norms import NormQuery, SquaresQuery
from ...blocks.robust_mean import RobustMeanQuery
from ...models.missing_regression.model import MissingQuery
from ...models.missing_regression.moments import ObservedMomentsQuery, ScalesQuery
from ...models.symmetric.model import Symmetric, SymmetricQuery
from . import checks
from .checks import need

__all__ = ["FIELDS", "check"]

_RECORDS = ("region", "target", "radii", "cap_weight", "cell")
FIELDS: dict[type, tuple[str, ...]] = {
    SymmetricQuery: ("state", "target"),
    MissingQuery: ("state",),
    Symmetric: ("beta", "variance"),
    DirectionsQuery: ("region", "radius", "whitener", "target", "square", "cap_weight", "cell"),
    NormQuery: ("widths",),
    SquaresQuery: ("region", "radii", "target", "cap_weight", "cell"),
    ScalesQuery: _RECORDS,
    ObservedMomentsQuery: _RECORDS,
    BoundedGradientQuery: (
        "model",
        "bounding",
        "region",
        "target",
        "squares",
        "cap_weight",
        "cell",
    ),
    SymmetricGradient: ("beta", "variance"),
    SymmetricRegressionGradient: ("beta", "variance", "whitener"),
    MissingCovariateGradient: ("beta", "variance"),
    RobustMeanQuery: ("centre", "unit", "bounding", "cap_weight", "cell"),
    Clip: ("radius",),
    Robust: ("scale", "beta"),
    Squares: ("weight", "cap"),
    Cell: ("index", "count"),
}

# A gradient's own rounding is bounded by 2^-51 times its size or more (docs/proofs/gradient.md,
# section 2): below this, squares of sizes are numbers, and no record ever becomes infinite.
_MOST_ERROR = 2.0**400
# Smoothing of robust gradients: between next to nothing and next to everything.
_LEAST_BETA, _MOST_BETA = 2.0**-30, 2.0**100


def check(query: Any, d: int, private: bool) -> bool:
    """Whether the query is one of these; raises unless it is then sound."""
    match query:
        case SymmetricQuery(state=state, target=target):
            need(not private and isinstance(target, bool))
            _state(state, d - target)
        case MissingQuery(state=state):
            need(not private)
            _state(state, d - 1)
        case NormQuery(widths=widths):
            need(isinstance(widths, tuple) and all(type(width) is int for width in widths))
            need(0 < len(widths) <= 2 and all(width > 0 for width in widths) and sum(widths) == d)
        case DirectionsQuery():
            # Of the features alone, it leaves a target aside.
            aside = query.target is None and getattr(query.region, "d", d) == d - 1
            _records(query, d - aside, private)
            checks.ordinary(query.radius)
            checks.number(query.square, 0.0, strict=True)
            if private:
                checks.ordinary(query.square)
            _whitener(query.whitener, query.region.d)
        case SquaresQuery(radii=radii, target=target):
            _records(query, d, private)
            _radii(radii, 1 if target is None else 2)
        case ScalesQuery() | ObservedMomentsQuery():
            need(query.target is not None)
            _records(query, d, private)
            _radii(query.radii, 2)
        case BoundedGradientQuery():
            _records(query, d, private)
            _gradient(query)
        case RobustMeanQuery(centre=centre, unit=unit):
            checks.array(centre, (d,))
            checks.array(unit, (d,))
            checks.magnitudes(unit, positive=True)
            _bounding(query.bounding)
            checks.ordinary(query.cap_weight)
            checks.cell(query.cell, private)
        case _:
            return False
    return True


def _state(state: Any, d: int) -> None:
    need(isinstance(state, Symmetric) and d > 0)
    checks.array(state.beta, (d,))
    checks.number(state.variance, 0.0, strict=True)


def _records(query: Any, d: int, private: bool) -> None:
    """Regions of the features and of a target, which is then the last column; weights and cell."""
    features = d - (query.target is not None)
    need(features > 0)
    checks.region(query.region, features, data=private)
    if query.target is not None:
        checks.region(query.target, 1, data=private)
    checks.ordinary(query.cap_weight)
    checks.cell(query.cell, private)


def _radii(radii: Any, parts: int) -> None:
    need(isinstance(radii, tuple) and len(radii) == parts)
    for radius in radii:
        checks.ordinary(radius)


def _whitener(whitener: Any, d: int) -> None:
    if whitener is not None:
        checks.array(whitener, (d, d))
        checks.magnitudes(whitener)


def _bounding(bounding: Any) -> None:
    match bounding:
        case Clip(radius=radius):
            checks.ordinary(radius)
        case Robust(scale=scale, beta=beta):
            checks.ordinary(scale)
            checks.number(beta, _LEAST_BETA)
            need(beta <= _MOST_BETA)
        case _:
            need(False)


def _gradient(query: BoundedGradientQuery) -> None:
    """The gradient fits the records, and none of them overflows on its way to being bounded.

    What is not a number would be published as zero, and whoever made it so could be seen.
    """
    model, region, target = query.model, query.region, query.target
    kinds = (SymmetricGradient, SymmetricRegressionGradient, MissingCovariateGradient)
    need(isinstance(model, kinds))
    assert isinstance(model, kinds)
    need(isinstance(model, SymmetricGradient) == (target is None))
    checks.array(model.beta, (region.d,))
    checks.magnitudes(model.beta)
    checks.ordinary(model.variance)
    if isinstance(model, SymmetricRegressionGradient):
        _whitener(model.whitener, region.d)
    _bounding(query.bounding)
    if query.squares is not None:
        need(isinstance(query.squares, Squares))
        checks.ordinary(query.squares.weight)
        checks.ordinary(query.squares.cap)
    errors = model.error(reach(region), 0.0 if target is None else reach(target))
    need(all(error < _MOST_ERROR for error in errors))
