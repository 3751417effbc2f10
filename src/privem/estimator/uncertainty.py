"""The standard errors that the noise of a private fit causes in its parameters.

The fit is played again, without the data, with noise added to its releases once more
(:class:`privem.run.Tape`), and each parameter's root mean square change is its standard error. This
is the delta method without formulas: to first order, the change is what the Jacobian of everything
after the releases makes of their noise. It holds for every model, whatever a plan does with its
releases (steps shrunk towards the last iterate, averages of iterates, floors, other coordinates),
and it is arithmetic on releases: it costs no budget.

It is the noise alone, on the answers to the questions that were asked. What noise has done to the
questions is not in it (bounds, the start, whose record is whose in an iteration, and so another
optimum), and the records count as given: a standard error says nothing of how a sample differs from
a population, or of what clipping does. How often it is right: ``experiments/uncertainty``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import Plan, Release
from ..linalg import Array, map_leaves
from ..run import NotAsRecorded, Tape, run
from .warnings import WithLineage, at_end

# How often noise is drawn: a standard error is then known to an eighth of itself.
_DRAWS = 32
# Fewer, where it would take long: for so many parameters, or where a model says so.
_FEWEST, _MANY = 8, 2**20
# The draws are always the same: the result is a function of what was released.
_SEED = 14


@dataclass(frozen=True)
class Played:
    """A private fit that can be played again: its plan, and what was released and given."""

    plan: Plan[Any]
    tape: Tape
    changes: list[Array | None] = field(default_factory=list)
    """How parameters changed each time; ``None``: that draw led nowhere."""

    def often(self, model: Any, times: int) -> list[Array]:
        """The changes of a fitted model's parameters in so many draws, the same ones every time."""
        values = _flat(_values(model))
        for seed in range(len(self.changes), times):
            changed = partial(_noisier, np.random.default_rng((_SEED, seed)))
            self.changes.append(None)
            # A model that was paid for is not lost over a draw that led nowhere.
            with (
                suppress(NotAsRecorded, ArithmeticError, ValueError),
                self.tape.playing(changed) as source,
            ):
                self.changes[-1] = _flat(_again(model, run(self.plan, source))) - values
        return [change for change in self.changes[:times] if change is not None]


def standard_errors(
    model: Any, played: Played, most: int = _DRAWS, factor: float = 1.0
) -> dict[str, Any]:
    """Of each released parameter of a fitted model, by attribute.

    From so many draws at most, and times a factor.
    """
    fitted = _values(model)
    size = len(_flat(fitted))
    draws = min(most, max(min(_MANY // max(size, 1), model._replays), _FEWEST))
    with np.errstate(all="ignore"), at_end():
        found = played.often(model, draws)
        if len(found) < draws / 2:
            found = [np.full(size, np.inf)]  # nobody can tell
        errors = factor * np.sqrt(np.mean(np.square(found), axis=0))
    return _shaped(fitted, np.where(np.isfinite(errors), errors, np.finfo(float).max))


def _again(model: Any, result: Any) -> dict[str, Any]:
    """The parameters of the same fit with another result."""
    other = object.__new__(type(model))
    vars(other).update(vars(model))
    other._set_again(result)
    return _values(other)


def _values(model: Any) -> dict[str, Any]:
    """Released parameters, by attribute."""
    return {name: getattr(model, name) for name in model._released or model._needed}


def _noisier(rng: np.random.Generator, release: Release[Any]) -> Release[Any]:
    """A release with noise of its own size added once more; it does not know."""
    assert release.deviation is not None

    def noisy(value: Any, deviation: Any) -> Array:
        return np.asarray(value + deviation * rng.standard_normal(np.shape(value)))

    statistics = map_leaves(noisy, release.statistics, release.deviation)
    return Release(release.query, statistics, release.deviation, release.spent)


def _flat(parameters: Mapping[str, Any]) -> Array:
    """All numbers in one row."""
    parts = [part for value in parameters.values() for part in _arrays(value)]
    return np.concatenate([np.ravel(part) for part in parts])


def _arrays(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _shaped(like: Mapping[str, Any], numbers: Array) -> dict[str, Any]:
    """Numbers in the shapes of parameters: arrays, lists of arrays, or single numbers."""
    found, at = {}, 0
    for name, value in like.items():
        parts = []
        for part in _arrays(value):
            parts.append(numbers[at : at + np.size(part)].reshape(np.shape(part)))
            at += np.size(part)
        found[name] = parts if isinstance(value, list) else parts[0]
    return found


class WithUncertainty(WithLineage):
    """Abstract base of estimators whose private fits say what their noise has done."""

    # The attributes without which there is no model.
    _needed: ClassVar[tuple[str, ...]] = ()
    # Released parameters, where these are others.
    _released: ClassVar[tuple[str, ...]] = ()

    @property
    def _replays(self) -> int:
        """How often noise may be drawn before that takes long."""
        return _DRAWS

    @abstractmethod
    def _set_private(self, result: Any) -> None:
        """Set what a private fit has found."""

    def _set_again(self, result: Any) -> None:
        """Set what this fit has found with other noise; only its parameters will be looked at."""
        self._set_private(result)

    def _advise(self) -> None:
        """Warn of what noise has done to a private fit, when it is done."""

    def uncertainty(self) -> dict[str, Any]:
        """The standard error that noise causes in each released parameter of a private fit.

        That is what noise does to the answers, the questions of the fit being given: bounds, start,
        and whose record is whose in each iteration. The records are given too: the error of a
        sample is not in it, nor what clipping does. It is computed from releases alone and costs no
        budget.

        Returns
        -------
        dict
            From each attribute to the standard errors of its numbers, in the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> from privem import GaussianMixture
        >>> X = np.random.default_rng(0).normal([3.0, -1.0], 1.0, size=(5000, 2))
        >>> model = GaussianMixture(bounds=10).fit(X)
        >>> model.uncertainty()["means_"].shape
        (1, 2)
        >>> bool((np.abs(model.means_ - X.mean(axis=0)) < 6 * model.uncertainty()["means_"]).all())
        True
        """
        check_is_fitted(self)
        if "privacy_" not in vars(self):
            raise ValueError(
                "this fit is exact: no noise was added, so there is no standard error of it"
            )
        if "_uncertainty" not in vars(self._without_releases()):
            raise ValueError("this model was saved before standard errors were: fit it again")
        return dict(self._uncertainty)

    def _rough_errors(self, draws: int) -> dict[str, Any]:
        """The same from a few draws: noise over these has a variance of one, if it has any."""
        factor = math.sqrt(draws / (draws - 2)) if draws > 2 else 1.0
        return standard_errors(self, self._played, draws, factor)

    def _without_releases(self) -> Self:
        """The model with standard errors in place of the releases they are computed from."""
        if "_played" in vars(self):
            self._uncertainty = standard_errors(self, self._played)
            del self._played
        return self

    def __getstate__(self) -> Any:
        return super(WithUncertainty, self._without_releases()).__getstate__()
