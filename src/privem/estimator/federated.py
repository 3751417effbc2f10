"""Fitting on a federation: what an estimator tells the parties, and what it cannot ask of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..budget import failure_of
from ..data.table import People
from ..federation import Federation
from ..federation.party.rows import plain_categories
from ..models.categorical_mixture.model import declared
from ..statement import Statement

if TYPE_CHECKING:
    from .base import Estimator

__all__ = [
    "agreed_categories",
    "begin_mean",
    "federated_people",
    "open_federation",
    "refuse_pure",
    "refuse_rows_arguments",
]

# Parameters that say nothing about what is fitted.
_ASIDE = ("verbose", "verbose_interval", "n_jobs", "copy", "copy_x")


def open_federation(estimator: Estimator, X: Federation, weight: Any, groups: Any) -> Federation:
    """Open a run for this estimator; parties hear its parameters."""
    refuse_rows_arguments(weight, groups)
    _refuse_local(getattr(estimator, "trust", "central"))
    _refuse_other_columns(estimator, X)
    _refuse_row_starts(estimator)
    private = getattr(estimator, "epsilon", None) is not None
    failure = _failure(X, estimator.delta, estimator.neighbours) if private else 0.0
    params = estimator.get_params(deep=False)
    budget = _budget(params) if private else None
    X.begin(_terms(type(estimator).__name__, params), failure, private, budget)
    return X


def begin_mean(X: Federation, params: Mapping[str, Any]) -> None:
    """Open a run for ``private_mean``."""
    _refuse_local(params["trust"])
    if X.target or X.categories is not None:
        raise ValueError("private_mean is of columns of numbers: parties without y= or categories=")
    failure = _failure(X, params["delta"], params["neighbours"])
    X.begin(_terms("private_mean", params), failure, True, _budget(params))


def _budget(params: Mapping[str, Any]) -> tuple[float, float, str]:
    """What all questions of a fit cost at most, and by which accountant."""
    return float(params["epsilon"]), float(params["delta"]), str(params["accountant"])


def federated_people(X: Federation) -> People:
    """The unit of privacy that all parties have agreed on."""
    unit = "person" if X.persons else "record"

    def sign(statement: Statement) -> Statement:
        agreed = X.agreement
        told = statement.shared(agreed.share, len(X.present), agreed.colluders)
        return replace(told, parties=X.statement())

    return People(unit, X.rows, X.weighted, sign)


def refuse_pure(X: Any, delta: float, max_rows: int | None) -> None:
    """Refuse pure privacy over a federation, and the limit on rows that comes with it."""
    if isinstance(X, Federation) and delta == 0:
        raise ValueError("a federation's parties share Gaussian noise: it needs a delta above 0")
    if isinstance(X, Federation) and max_rows is not None:
        raise ValueError("max_rows is for rows on this machine: parties agree on rows= themselves")


def refuse_rows_arguments(weight: Any, groups: Any) -> None:
    """What belongs to rows is with the parties."""
    if weight is not None or groups is not None:
        raise TypeError(
            "sample_weight and groups belong to rows, which are with the parties: give them to "
            "each Party: Party(rows, name, groups=...), or rows with weights"
        )


def agreed_categories(X: Federation, given: Any) -> list[NDArray[Any]]:
    """The categories that all parties have declared; they are public, and never read off rows."""
    if X.categories is None:
        raise ValueError(
            "categories over a federation are public: give every party the same list, "
            "Party(rows, name, categories=...); to read them off rows would give rare ones away"
        )
    known = declared(X.categories, None, len(X.categories))
    if given is not None and plain_categories(declared(given, None, len(known))) != X.categories:
        raise ValueError(
            "categories= are not those that the parties have agreed on; leave them out"
        )
    return known


def _failure(X: Federation, delta: float, neighbours: str) -> float:
    """The part of delta that a bound on the number of records costs, where that is not public."""
    counted = People("record", X.rows, X.weighted).public_count(neighbours) is None
    return failure_of(delta) if counted else 0.0


def _refuse_local(trust: str) -> None:
    if trust == "local":
        raise ValueError(
            "trust='local' is of people who answer one by one, a federation is of parties that sum "
            "their rows: fit with trust='central', where each party adds noise to its own sums"
        )


def _refuse_other_columns(estimator: Estimator, X: Federation) -> None:
    """Whether the last column is a target, and whether columns hold categories, is agreed on."""
    name = type(estimator).__name__
    needs = bool(estimator.__sklearn_tags__().target_tags.required)
    if needs and not X.target:
        raise ValueError(f"{name} has a target: give it to every party, Party(rows, name, y)")
    if X.target and not needs:
        raise ValueError(f"{name} has no target, and these parties have one: make them without y")
    if X.categories is not None and name != "CategoricalMixture":
        raise ValueError(f"{name} is for numbers, and these parties hold categories")


def _refuse_row_starts(estimator: Estimator) -> None:
    start = getattr(estimator, "init_params", "kmeans")
    if start != "kmeans":
        raise ValueError(
            f"init_params={start!r} looks at single rows, or goes by their numbers, and a "
            "federation gives sums only; use 'kmeans', or weights_init, means_init and "
            "precisions_init"
        )
    start = getattr(estimator, "init", "split")
    if callable(start) or (isinstance(start, str) and start != "split"):
        raise ValueError(
            f"init={start!r} looks at single rows, and a federation gives sums only; use 'split', "
            "or an array of centres"
        )


def _terms(name: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Name and parameters in words, arrays by their hash: what parties see and know again."""
    found = {"estimator": name}
    for key, value in sorted(params.items()):
        if key in _ASIDE:
            continue
        text = repr(value)
        if isinstance(value, np.ndarray):
            text = f"{value.shape} {value.tolist()!r}"
        if len(text) > 200:
            text = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        found[key] = text
    return found
