"""Every model, from what it declares: estimators that fit its example, and what their fits ask."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from privem.audit import Transcript
from privem.data.cells import cell
from privem.data.columns import Number
from privem.data.mixed import as_frame
from privem.declaration import Declaration, declarations
from privem.federation import Federation, Party

every_model = pytest.mark.parametrize("declared", declarations(), ids=lambda each: each.name)
# Estimators of numbers without a target, and those with one.
PLAIN = [
    each.estimator for each in declarations() if not (each.target or each.categories or each.schema)
]
TARGETED = [each.estimator for each in declarations() if each.target]


def exact(declared: Declaration, **more: Any) -> Any:
    """An estimator that fits the example exactly."""
    return _estimator(declared, {"epsilon": None}, more)


def private(declared: Declaration, **more: Any) -> Any:
    """An estimator that fits the example privately, between public bounds."""
    return _estimator(declared, {"epsilon": 4.0, **declared.example().bounds}, more)


def _estimator(declared: Declaration, terms: dict[str, Any], more: dict[str, Any]) -> Any:
    return declared.estimator(
        **{"random_state": 0, **declared.example().arguments, **terms, **more}
    )


def fit(model: Any, *data: Any, **more: Any) -> Any:
    """Fit without advice: what is small or does not converge is not what a contract is about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data, **more)


@cache
def fitted(declared: Declaration, is_private: bool) -> tuple[Any, Transcript]:
    """The model fitted on its example, and everything it asked. Made once; not to be changed."""
    model, seen = (private if is_private else exact)(declared), Transcript()
    model._watch = seen
    fit(model, *declared.example().data)
    del model._watch
    return model, seen


def questions(declared: Declaration, is_private: bool) -> list[Any]:
    """One query of each kind that fits of the example ask."""
    _, seen = fitted(declared, is_private)
    return list({type(stage.query): stage.query for stage, _ in seen.entries}.values())


def records(declared: Declaration) -> np.ndarray:
    """The example as queries see it: the target is the last column, categories are codes."""
    data = declared.example().data
    if declared.categories:
        return np.searchsorted(declared.example().arguments["categories"], data[0]).astype(float)
    if declared.schema:
        low, high = declared.example().arguments["schema"]
        columns = [Number(f"x{j}", low, high, whole=False) for j in range(data[0].shape[1])]
        return as_frame(data[0]).select(*map(cell, columns)).to_numpy().astype(float)
    return np.column_stack(data)


def learned(model: Any) -> dict[str, np.ndarray]:
    """The numbers a fit has learned."""
    skip = ("feature_names_in_", "feature_types_in_", "labels_")
    found = {k: v for k, v in vars(model).items() if k.endswith("_") and k not in skip}
    lists = {
        k: np.concatenate([np.ravel(part) for part in v]) for k, v in found.items() if _many(v)
    }
    arrays = {k: np.asarray(v) for k, v in found.items() if k not in lists}
    return {k: v for k, v in (arrays | lists).items() if v.dtype.kind in "fi"}


def _many(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, np.ndarray) for v in value)


def federate(
    declared: Declaration, parties: int = 3, protection: str = "plain", **terms: Any
) -> Any:
    """The example, its rows dealt out to parties."""
    data = declared.example().data
    more = {}
    if declared.categories:
        more["categories"] = declared.example().arguments["categories"]
    if declared.schema:
        more["schema"] = declared.example().arguments["schema"]
    members = [
        Party(data[0][i::parties], f"party {i}", *(part[i::parties] for part in data[1:]), **more)
        for i in range(parties)
    ]
    return Federation(members, protection=protection, **terms)
