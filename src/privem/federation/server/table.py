"""A federation as a table: what parties are told about a fit, and what cannot be asked of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...budget import failure_of
from ...data import Policy, Table
from ...data.categories import category_type, declared
from ...data.table import People, refuse_looks
from ...meter import Statement
from ..party.rows import plain_categories

if TYPE_CHECKING:
    from .federation import Federation

# Parameters that say nothing about what is fitted.
_ASIDE = ("verbose", "verbose_interval", "n_jobs", "copy", "copy_x", "ledger")


def open_federation(X: Federation, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """Open a run; parties hear the name and the parameters of what is fitted."""
    if policy.fitted:
        raise TypeError(
            "this takes the rows of one holder, not a Federation, whose rows stay with the "
            "parties: each party may load the fitted model and evaluate its own rows"
        )
    _refuse(X, y, weight, groups, policy)
    params = policy.params
    known = _agreed_categories(X, policy.categories) if policy.coded else None
    people = federated_people(X)
    failure, budget = 0.0, None
    if policy.private:
        delta, counted = float(params["delta"]), people.public_count(params["neighbours"]) is None
        failure = failure_of(delta) if counted else 0.0
        budget = (float(params["epsilon"]), delta, str(params["accountant"]))
    X.begin(_terms(policy.name, params), failure, policy.private, budget)
    names = X.names
    return Table(
        X,
        people,
        names[: X.n_features - policy.target] if names else None,
        None if known is None else [category_type(values) for values in known],
        policy.target,
        names[-1] if names and policy.target else None,
        known,
        X.schema,
        elsewhere=X,
    )


def federated_people(X: Federation) -> People:
    """The unit of privacy that all parties have agreed on; statements say who could learn what."""

    def sign(statement: Statement) -> Statement:
        agreed = X.agreement
        told = statement.shared(agreed.share, len(X.present), agreed.colluders)
        return replace(told, parties=X.statement())

    return People("person" if X.persons else "record", X.rows, X.weighted, sign)


def _refuse(X: Federation, y: Any, weight: Any, groups: Any, policy: Policy) -> None:
    """Raise for what a federation cannot be asked; before its parties hear of anything."""
    params, name = policy.params, policy.name
    if policy.private and params["delta"] == 0:
        raise ValueError("a federation's parties share Gaussian noise: it needs a delta above 0")
    if policy.private and params.get("max_rows") is not None:
        raise ValueError("max_rows is for rows on this machine: parties agree on rows= themselves")
    if weight is not None or groups is not None:
        raise TypeError(
            "sample_weight and groups belong to rows, which are with the parties: give them to "
            "each Party: Party(rows, name, groups=...), or rows with weights"
        )
    if policy.target and y is not None:
        raise TypeError("targets are with the parties, Party(rows, name, y): y=None here")
    if params.get("trust") == "local":
        raise ValueError(
            "trust='local' is of people who answer one by one, a federation is of parties that sum "
            "their rows: fit with trust='central', where each party adds noise to its own sums"
        )
    if policy.target and not X.target:
        raise ValueError(f"{name} has a target: give it to every party, Party(rows, name, y)")
    if X.target and not policy.target:
        raise ValueError(f"{name} has no target, and these parties have one: make them without y")
    if X.categories is not None and not policy.coded:
        raise ValueError(f"{name} is for numbers, and these parties hold categories")
    if (X.schema is None) != (policy.schema is None):
        raise ValueError(
            f"{name} is for parties with a schema: Party(rows, name, schema=...)"
            if X.schema is None
            else f"{name} is for numbers or categories, and these parties have a schema"
        )
    refuse_looks(params, "a federation")


def _agreed_categories(X: Federation, given: Any) -> list[NDArray[Any]]:
    """The categories that all parties have declared; they are public, and never read off rows."""
    if X.categories is None:
        raise ValueError(
            "categories over a federation are public: give every party the same list, "
            "Party(rows, name, categories=...); to read them off rows would give rare ones away"
        )
    d = len(X.categories)
    known = declared(X.categories, None, d)
    names = X.names if isinstance(given, Mapping) else None
    if given is not None and plain_categories(declared(given, names, d)) != X.categories:
        raise ValueError(
            "categories= are not those that the parties have agreed on; leave them out"
        )
    return known


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
