"""Attributes that scikit-learn's fits have and private ones cannot: why, and what to use."""

from __future__ import annotations

from typing import Any

__all__ = ["missing_attribute"]

_SCORE = "it would be computed from all records once more; score(X) gives it to whoever holds them"
_REASONS = {
    "labels_": "labels belong to single records; predict(X) gives them to whoever holds the records"
    " (they are not private)",
    "inertia_": f"{_SCORE} (not private: minus the inertia)",
    "lower_bound_": f"{_SCORE} (not private)",
    "lower_bounds_": f"{_SCORE} (not private)",
    "converged_": "whether it converged would be read off the records; it ran n_iter_ iterations, "
    "a number chosen from the noise level alone",
}


def missing_attribute(model: Any, name: str) -> AttributeError:
    """What to raise where ``model`` has no attribute of this name."""
    kind = type(model).__name__
    message = f"{kind!r} object has no attribute {name!r}"
    if name in _REASONS and "privacy_" in vars(model):
        message = f"a private fit does not release {name}: {_REASONS[name]}"
    return AttributeError(message, name=name, obj=model)
