"""From the options of ``privem fit`` to an estimator; what does not go together is refused."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from ..estimator.parameters import positions
from .choices import Batch, Covariance, Method, Neighbours, PriorKind, Trust
from .failures import UsageError
from .kinds import COUNTED, FACTS, TARGETED, Kind, in_words
from .options import categories_of, limits_of

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The options of ``privem fit`` that say what to fit; ``None`` is the model's own default."""

    kind: Kind
    components: int | None
    covariance: Covariance | None = None
    prior: PriorKind | None = None
    max_iter: int | None = None
    tol: float | None = None
    n_init: int | None = None
    seed: int | None = None
    n_jobs: int | None = None
    exact: bool = False
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[str, ...] = ()
    neighbours: Neighbours | None = None
    n_iter: int | None = None
    target: str | None = None
    categories: tuple[str, ...] = ()
    noise_variance: float | None = None
    method: Method | None = None
    weight: str | None = None
    groups: str | None = None
    max_weight: float | None = None
    max_rows: int | None = None
    mechanism: str | None = None
    accountant: str | None = None
    trust: Trust | None = None
    clip: float | None = None
    tau: float | None = None
    step: float | None = None
    failure: float | None = None
    batch: Batch | None = None
    averaging: bool | None = None
    missing_probability: float | None = None

    def estimator(self) -> Any:
        """The estimator, its parameters checked."""
        facts = FACTS[self.kind]
        given: dict[str, Any] = {"n_jobs": self.n_jobs}
        if self.exact:
            given["epsilon"] = None
        self._refuse_the_other_kind()
        # Parameter, option, and the models that take it: those with such a parameter by default.
        options: dict[str, tuple[Any, str, tuple[Kind, ...]]] = {
            str(facts.count): (self.components, "--components", COUNTED),
            "target": (self.target, "--target", TARGETED),
            "covariance_type": (self.covariance, "--covariance", _takers("covariance_type")),
            "random_state": (self.seed, "--seed", tuple(Kind)),
            "categories": (self.categories or None, "--category", _takers("categories")),
            "bounds": (self.bounds or None, "--bound", _takers("bounds")),
            **{
                name: (getattr(self, name), _option(name), _takers(name))
                for name in _SAME_NAME
                if name not in ("groups", "bounds")
            },
        }
        for name, (value, option, kinds) in options.items():
            if value is None:
                if option in _NEEDED and self.kind in kinds:
                    raise UsageError(f"--model {self.kind} needs {option}: {_NEEDED[option]}")
                continue
            if self.kind not in kinds:
                raise UsageError(f"{option} is for {in_words(kinds)}, not for --model {self.kind}")
            if name in ("target", "categories", "bounds"):
                continue  # which the columns of the file have a say in
            given[name] = str(value) if isinstance(value, StrEnum) else value
        if self.n_jobs == 0:
            raise UsageError("--n-jobs must not be 0; -1 means every core")
        limits_of(self.bounds)
        self._refuse_idle()
        if self.kind is Kind.categorical:
            given["categories"] = list(categories_of(self.categories).values()) or None
        if self.kind is Kind.categorical and not self.categories and not self.exact:
            raise UsageError(
                "a private fit of --model categorical needs --category COLUMN=A,B,... for every "
                "column: to read categories off the data would give rare ones away"
            )
        estimator: Any = facts.estimator(**given)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # The fit says it again, and then it is noted.
                estimator._check_parameters()
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        return estimator

    def _refuse_the_other_kind(self) -> None:
        """An option that the fit would not heed is an error: somebody believes in it."""
        private = {_option(name): getattr(self, name) for name in _PRIVATE}
        private["--bound"] = self.bounds or None
        # Factor analysis iterates on what was released: it stops there, private or not.
        exact = {"--tol": self.tol} if self.kind != Kind.fa else {}
        odd = [
            name for name, value in (private if self.exact else exact).items() if value is not None
        ]
        if odd and self.exact:
            raise UsageError(
                f"--exact fits without privacy, {odd[0]} is for private fits: leave one of them out"
            )
        if odd:
            raise UsageError(
                f"{odd[0]} is for exact fits: a private one takes --n-iter; or give --exact"
            )

    def _refuse_idle(self) -> None:
        """Options that count only beside others."""
        gradient = ("clip", "tau", "step", "failure", "batch", "averaging")
        robust = self.mechanism == "robust"
        local = self.trust is Trust.local
        idle = {
            "--max-weight caps what --weight says: give both": self.max_weight is not None
            and self.weight is None,
            **{
                f"{_option(name)} is for --method gradient": getattr(self, name) is not None
                and self.method is not Method.gradient
                for name in gradient
            },
            "--tau is for --mechanism robust": self.tau is not None and not robust,
            "--failure is for --mechanism robust": self.failure is not None and not robust,
            "--clip is not for --mechanism robust": self.clip is not None and robust,
            "--trust local takes neither --groups nor --weight: one record a person": local
            and (self.groups is not None or self.weight is not None),
            "--trust local hides any change of a record: leave out --neighbours": local
            and self.neighbours is not None,
            "--trust local needs --bound for every column (and the target): nobody may look at "
            "all records to find them": local
            and not self.bounds
            and self.kind in _takers("bounds"),
            f"--trust local needs --bound {self.target}=LOW:HIGH too, of the target": local
            and self.target is not None
            and self.target not in limits_of(self.bounds),
        }
        for reason, applies in idle.items():
            if applies:
                raise UsageError(reason)

    def tell(self, estimator: Any, columns: Sequence[str], named: bool = True) -> None:
        """Give an estimator what was said of single columns: bounds, or categories."""
        limits, categories = limits_of(self.bounds), categories_of(self.categories)
        if self.target in limits:
            estimator.target_bounds = limits.pop(self.target)
        if limits:
            _refuse_odd("--bound", limits, columns)
            sides = np.array([limits[name] for name in columns]).T
            estimator.bounds = limits if named else (sides[0], sides[1])
        if categories:
            _refuse_odd("--category", categories, columns)
            estimator.categories = [categories[name] for name in columns]


# Options that only a private fit heeds.
_PRIVATE = (
    *("epsilon", "delta", "bounds", "neighbours", "n_iter", "groups", "max_weight", "mechanism"),
    "max_rows",
    *("accountant", "trust", "clip", "tau", "step", "failure", "batch", "missing_probability"),
    "averaging",
)
# Options called as the parameter is, with dashes.
_SAME_NAME = (
    *_PRIVATE,
    *("prior", "n_init", "noise_variance", "method", "max_iter", "tol"),
)
_NEEDED = {
    "--components": "how many there are",
    "--target": "the column to be explained",
}


def _option(name: str) -> str:
    return "--bound" if name == "bounds" else f"--{name.replace('_', '-')}"


def _takers(name: str) -> tuple[Kind, ...]:
    """The models with a parameter of this name."""
    return tuple(
        kind for kind in Kind if name in inspect.signature(FACTS[kind].estimator).parameters
    )


def _refuse_odd(option: str, given: Mapping[str, Any], columns: Sequence[str]) -> None:
    unknown, without = sorted(set(given) - set(columns)), sorted(set(columns) - set(given))
    wrong = [f"not fitted: {', '.join(unknown)}"] * bool(unknown)
    # By position: the names may be the first line of a file that has no header.
    wrong += [f"without one: {positions(without, columns)}"] * bool(without)
    if wrong:
        raise UsageError(f"{option} is for every column fitted or for none; {'; '.join(wrong)}")
