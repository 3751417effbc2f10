"""Warnings that point at the user's own line; and why an attribute that a user looks for is absent.

How many private fits an estimator and its clones have made: each of them spends.

scikit-learn's searches and cross-validation fit clones, many of them and mostly on the same
records, here or in other processes. No data are compared: what is counted is who was cloned from
whom. An estimator and its clones, the clones of clones and what became of them by pickling share a
token. Each process counts the private fits it has seen of a token; it cannot see those of other
processes, but it knows which clones it has sent there (pickled unfitted), and a clone that arrives
in a worker knows how many were made before it.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..accounting import Gaussian, mu_for
from ..accounting import epsilon as epsilon_of
from ..linalg import Array

# Components that differ by so many standard errors, from two draws of noise, can be told apart;
# others are looked at with a few more.
_GLANCE, _LOOK, _FAR, _MANY = 2, 6, 6.0, 40

_waiting: ContextVar[list[tuple[str, type[Warning]]]] = ContextVar("_waiting")


def advise(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the line outside privem that led here, however deep inside we are."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def advise_at_end(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn when the fit is complete: what was paid for is not lost where warnings are errors."""
    waiting = _waiting.get(None)
    if waiting is None:  # not in a fit
        advise(message, category)
    else:
        waiting.append((message, category))


@contextmanager
def at_end() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect the warnings that wait for the end of a fit."""
    token = _waiting.set([])
    try:
        yield _waiting.get()
    finally:
        _waiting.reset(token)


def _ours(module: str) -> bool:
    # contextlib runs what ends a with block.
    return module.partition(".")[0] in ("privem", "contextlib")


def few(names: Sequence[str]) -> str:
    """Names for a message: the first ten, and how many more."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def say_few(model: Any, ground: Any, wanted: str, instead: str) -> None:
    """Advise of noise that hides what was wanted.

    From the noise and the paid count alone: it says nothing else about the data.
    """
    how, local = "" if ground.fixed_count else "about ", ", trust local" * model._local
    advise_at_end(
        f"{how}{ground.count:,.0f} records are too few for {wanted} at "
        f"epsilon={model.epsilon:g}{local}: {instead}use more records, fewer features or a "
        "larger epsilon"
    )


def say_single(model: Any, result: Any, what: str, one: str) -> None:
    """Advise of one component in place of all: of the noise, or of a contest that was lost."""
    wanted, instead = f"{model.n_components} {what}", f"all of them are {one}"
    if not result.beaten:
        say_few(model, result.ground, wanted, f"{instead} (structure_ is 'single'); ")
        return
    advise_at_end(
        f"as far as noise can tell at epsilon={model.epsilon:g}, records are no more likely under "
        f"{wanted} than under one: {instead} (structure_ is 'single')"
    )


def say_lost(result: Any, what: str) -> None:
    """Advise of components that noise may have made up; from releases alone."""
    if result.lost:
        advise_at_end(
            f"{what} {few([str(k) for k in result.lost])}: no more records than noise may have "
            f"made up, so what is said of them is noise; use fewer {what}, more records or a "
            "larger epsilon"
        )


def say_alike(model: Any) -> None:
    """Warn of components whose differences are no larger than their noise; from releases alone.

    At the end of a private fit (``_advise``), when a few draws of noise are enough to tell.
    """
    values, pairs = _rows(model, model._apart), _pairs(model)
    if len(pairs):
        z = _differences(values, _rows(model._rough_errors(_GLANCE), model._apart), pairs)
        # Of many parameters it is enough that one in ten differs.
        pairs = pairs[np.quantile(z, 0.9 if z.shape[1] > _MANY else 0.5, axis=1) < _FAR]
    if not len(pairs):
        return
    found = alike(model, model._rough_errors(_LOOK), pairs)
    if found:
        advise_at_end(
            f"{model._parts} {few([f'{j} and {k}' for j, k in found])} cannot be told apart: they "
            f"differ by no more than noise; use fewer {model._parts}, more records or a larger "
            "epsilon"
        )


def alike(model: Any, errors: Any, pairs: NDArray[np.int64] | None = None) -> list[tuple[int, int]]:
    """Pairs of components whose differences are no larger than their noise.

    Two are alike if the mean square of the differences of their parameters, in standard errors, is
    what noise makes of equal ones, or two deviations more. For one parameter, that is two standard
    errors.

    Parameters
    ----------
    model : estimator
        Its ``_apart`` names the parameters, and its ``_near`` the pairs that are worth a look.
    errors : mapping
        Standard errors by attribute.
    pairs : ndarray of shape (n, 2), optional
        Look at these alone.
    """
    values = _rows(model, model._apart)
    pairs = _pairs(model) if pairs is None else pairs
    if not len(pairs):
        return []
    z = _differences(values, _rows(errors, model._apart), pairs)
    found = pairs[np.mean(z**2, axis=1) <= 1 + 2 * math.sqrt(2 / z.shape[1])]
    return [(int(j), int(k)) for j, k in found]


def _pairs(model: Any) -> NDArray[np.int64]:
    """Of components that are near enough to be compared."""
    near = model._near()
    if near is None:
        near = np.ones((len(_rows(model, model._apart)),) * 2, bool)
    return np.argwhere(np.triu(near, 1))


def _rows(found: Any, names: Sequence[str]) -> Array:
    """Parameters, or their errors, with a row for each component."""
    of = found if isinstance(found, dict) else vars(found)
    parts = [part for name in names for part in _parts(of[name])]
    return np.concatenate([np.reshape(part, (len(part), -1)) for part in parts], axis=1)


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _differences(values: Array, errors: Array, pairs: NDArray[np.int64]) -> Array:
    """Of components, in standard errors; equal numbers do not differ, whatever their error."""
    (j, k) = pairs.T
    apart, error = np.abs(values[j] - values[k]), np.hypot(errors[j], errors[k])
    return np.where(apart > 0, np.minimum(apart / np.maximum(error, 1e-100), 1e100), 0.0)


class PrivacyCompositionWarning(UserWarning):
    """An estimator and its clones were fitted privately more than once: epsilons add up.

    Raised before the fit spends anything, so that turning it into an error stops the fit.

    Examples
    --------
    >>> import warnings
    >>> from privem import KMeans
    >>> from privem import PrivacyCompositionWarning
    >>> model = KMeans(1, bounds=1.0).fit([[0.5]] * 9)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PrivacyCompositionWarning)
    ...     model.fit([[0.5]] * 9)
    Traceback (most recent call last):
    ...
    privem.estimator.warnings.PrivacyCompositionWarning: 2 private fits of one KMeans ...
    """


@dataclass(frozen=True)
class Lineage:
    """Whom an estimator was cloned from."""

    token: str
    birth: int
    """Which clone of its lineage it is, counted from one; zero if it is none."""
    process: int
    """Where it was made."""


@dataclass
class _Seen:
    """What this process has seen of a lineage."""

    clones: int = 0
    fits: int = 0
    fitted: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)


_SEEN: defaultdict[str, _Seen] = defaultdict(_Seen)
_LOCK = threading.Lock()


def lineage_of(model: Any) -> Lineage:
    """The model's lineage, which begins with it unless it was cloned."""
    found: Lineage | None = vars(model).get("_lineage")
    if found is None:
        found = model._lineage = Lineage(secrets.token_hex(16), 0, os.getpid())
    return found


class WithLineage(BaseEstimator):  # type: ignore[misc]
    """An estimator whose clones and pickles know whom they come from."""

    def __sklearn_clone__(self) -> Any:
        copy, own = super().__sklearn_clone__(), lineage_of(self)
        with _LOCK:
            seen = _SEEN[own.token]
            # In a new process, counted on from what came from the old one.
            seen.clones = max(seen.clones, own.birth) + 1
            copy._lineage = Lineage(own.token, seen.clones, os.getpid())
        return copy

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if getattr(self, "epsilon", None) is None:
            # Equal exact estimators have equal bytes, which joblib.Memory knows them by.
            return {name: value for name, value in state.items() if name != "_lineage"}
        own: Lineage | None = vars(self).get("_lineage")
        if own is not None and own.birth and "privacy_" not in vars(self):
            # An unfitted clone is being pickled: to be fitted in another process.
            with _LOCK:
                _SEEN[own.token].sent.add(own.birth)
        return state


def count_fit(model: Any) -> None:
    """Count a private fit that is about to spend; warn if it is not the first of its lineage."""
    own = lineage_of(model)
    with _LOCK:
        seen = _SEEN[own.token]
        elsewhere = len(seen.sent - seen.fitted - {own.birth})
        fits, most = seen.fits + 1 + elsewhere, ""
        if own.process != os.getpid():  # of those made before us, some may have been fitted
            fits, most = max(fits, own.birth), "up to "
    if fits > 1:
        advise(_words(type(model).__name__, fits, most, model), PrivacyCompositionWarning)
    with _LOCK:
        seen.fits += 1
        seen.fitted.add(own.birth)


def _words(name: str, fits: int, most: str, model: Any) -> str:
    return (
        f"{most}{fits} private fits of one {name} and its clones, this one included. Each spends "
        f"its own epsilon (here {model.epsilon:g}) on the records it is given; a record in all of "
        f"them is protected by their composition only, {_together(fits, model)}. "
        "Cross-validation and searches such as GridSearchCV and cross_val_score do this, and "
        "scikit-learn passes groups= to the splitter, not to fit. See docs/sharp-edges.md; "
        "to make this an error: "
        "warnings.simplefilter('error', privem.PrivacyCompositionWarning)"
    )


def _together(fits: int, model: Any) -> str:
    """What so many fits at this budget cost together."""
    epsilon, delta = float(model.epsilon), float(model.delta)
    text = f"at most epsilon {fits * epsilon:.3g} with delta {fits * delta:.2g}"
    if delta == 0:
        return text
    # Fits of Gaussian noise compose as one with 1/sqrt(fits) of the noise.
    noise = 1 / (mu_for(epsilon, delta) * math.sqrt(fits))
    tight = epsilon_of(Gaussian(noise), delta, "gdp")
    return f"{text} (with Gaussian noise about epsilon {tight:.3g} with delta {delta:.2g})"


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
    """What the ``AttributeError`` says of an attribute that scikit-learn's fits have."""
    kind, found = type(estimator), vars(estimator)
    message = f"{kind.__name__!r} object has no attribute {name!r}"
    message = str(getattr(kind, "_absent", {}).get(name, message))
    if name in _UNRELEASED and "privacy_" in found:
        return f"a private fit does not release {name}: {_UNRELEASED[name]}"
    if name in _UNRELEASED and "_stream" in found:
        return f"{message}: a stream looks at each block once, and has none"
    missed = getattr(kind, "_missed", {})
    return f"{message}: {missed[name]}" if name in missed and "n_features_in_" in found else message
