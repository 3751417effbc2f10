"""Why an attribute that scikit-learn's fits have is absent from a model."""

from __future__ import annotations

from typing import Any

# Attributes that scikit-learn's fits have and private ones cannot: why, and what to use.
_SCORE = "it would be computed from all records once more; score(X) gives it to whoever holds them"
_UNRELEASED = {
    "labels_": "labels belong to single records; predict(X) gives them to whoever holds the records"
    " (they are not private)",
    "inertia_": f"{_SCORE} (not private: minus the inertia)",
    "lower_bound_": f"{_SCORE} (not private)",
    "lower_bounds_": f"{_SCORE} (not private)",
    "converged_": "whether it converged would be read off the records; it ran n_iter_ iterations, "
    "a number chosen from the noise level alone",
}


def why_absent(estimator: Any, name: str) -> str:
    """The message of the ``AttributeError``."""
    kind, found = type(estimator), vars(estimator)
    message = f"{kind.__name__!r} object has no attribute {name!r}"
    message = str(getattr(kind, "_absent", {}).get(name, message))
    if name in _UNRELEASED and "privacy_" in found:
        return f"a private fit does not release {name}: {_UNRELEASED[name]}"
    if name in _UNRELEASED and "_stream" in found:
        return f"{message}: a stream looks at each block once, and has none"
    missed = getattr(kind, "_missed", {})
    return f"{message}: {missed[name]}" if name in missed and "n_features_in_" in found else message
