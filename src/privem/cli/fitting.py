"""``privem fit``: from options to an estimator, and from a fit to a summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
from sklearn.exceptions import ConvergenceWarning

from ..report import CannotWrite
from ..sources import read_file
from .failures import reading_data
from .kinds import COUNTED, FACTS, GRADIENT, TARGETED, Kind, in_words
from .options import categories_of, limits_of
from .progress import FitProgress, WatchedRows
from .summary import NOT_PRIVATE, exact_results, public_results

__all__ = [
    "Covariance",
    "Method",
    "Neighbours",
    "PriorKind",
    "Settings",
    "fit_file",
]


class Covariance(StrEnum):
    """Shapes of a mixture's covariances."""

    full = "full"
    tied = "tied"
    diag = "diag"
    spherical = "spherical"


class Neighbours(StrEnum):
    """Which change privacy hides."""

    add_remove = "add-remove"
    replace_one = "replace-one"


class Method(StrEnum):
    """How the papers' regressions are fitted."""

    auto = "auto"
    moments = "moments"
    gradient = "gradient"


class PriorKind(StrEnum):
    """Priors of a mixture."""

    map = "map"


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

    def estimator(self) -> Any:
        """The estimator, its parameters checked."""
        facts = FACTS[self.kind]
        given: dict[str, Any] = {"n_jobs": self.n_jobs}
        if self.exact:
            given["epsilon"] = None
        self._refuse_the_other_kind()
        every = tuple(Kind)
        many_starts = (Kind.gmm, Kind.kmeans, Kind.regression_mixture, Kind.categorical)
        options = {
            facts.count: (self.components, "--components", COUNTED),
            "target": (self.target, "--target", TARGETED),
            "categories": (self.categories or None, "--category", (Kind.categorical,)),
            "bounds": (self.bounds or None, "--bound", _but(Kind.categorical)),
            "epsilon": (self.epsilon, "--epsilon", every),
            "delta": (self.delta, "--delta", every),
            "neighbours": (self.neighbours, "--neighbours", every),
            "n_iter": (self.n_iter, "--n-iter", _but(Kind.fa)),
            "covariance_type": (self.covariance, "--covariance", (Kind.gmm,)),
            "prior": (self.prior, "--prior", (Kind.gmm,)),
            "n_init": (self.n_init, "--n-init", many_starts),
            "noise_variance": (self.noise_variance, "--noise-variance", GRADIENT),
            "method": (self.method, "--method", GRADIENT),
            "max_iter": (self.max_iter, "--max-iter", every),
            "tol": (self.tol, "--tol", every),
            "random_state": (self.seed, "--seed", every),
        }
        for name, (value, option, kinds) in options.items():
            if value is None:
                if option in _NEEDED and self.kind in kinds:
                    raise click.UsageError(f"--model {self.kind} needs {option}: {_NEEDED[option]}")
                continue
            if self.kind not in kinds:
                raise click.UsageError(
                    f"{option} is for {in_words(kinds)}, not for --model {self.kind}"
                )
            if name in ("target", "categories", "bounds"):
                continue  # which the columns of the file have a say in
            given[str(name)] = str(value) if isinstance(value, StrEnum) else value
        if self.n_jobs == 0:
            raise click.UsageError("--n-jobs must not be 0; -1 means every core")
        limits_of(self.bounds)
        if self.kind is Kind.categorical:
            given["categories"] = list(categories_of(self.categories).values()) or None
        if self.kind is Kind.categorical and not self.categories and not self.exact:
            raise click.UsageError(
                "a private fit of --model categorical needs --category COLUMN=A,B,... for every "
                "column: to read categories off the data would give rare ones away"
            )
        estimator: Any = facts.estimator(**given)
        try:
            estimator._check_parameters()
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        return estimator

    def _refuse_the_other_kind(self) -> None:
        """An option that the fit would not heed is an error: somebody believes in it."""
        private = {
            "--epsilon": self.epsilon,
            "--delta": self.delta,
            "--bound": self.bounds or None,
            "--neighbours": self.neighbours,
            "--n-iter": self.n_iter,
        }
        # Factor analysis iterates on what was released: these two count there, private or not.
        exact = {"--max-iter": self.max_iter, "--tol": self.tol} if self.kind != Kind.fa else {}
        odd = [
            name for name, value in (private if self.exact else exact).items() if value is not None
        ]
        if odd and self.exact:
            raise click.UsageError(
                f"--exact fits without privacy, {odd[0]} is for private fits: leave one of them out"
            )
        if odd:
            raise click.UsageError(
                f"{odd[0]} is for exact fits: a private one takes --n-iter; or give --exact"
            )

    def tell(self, estimator: Any, columns: Sequence[str]) -> None:
        """Give an estimator what was said of single columns: bounds, or categories."""
        limits, categories = limits_of(self.bounds), categories_of(self.categories)
        if self.target in limits:
            estimator.target_bounds = limits.pop(self.target)
        if limits:
            _refuse_odd("--bound", limits, columns)
            sides = zip(*(limits[name] for name in columns), strict=True)
            estimator.bounds = tuple(sides)
        if categories:
            _refuse_odd("--category", categories, columns)
            estimator.categories = [categories[name] for name in columns]


_NEEDED = {
    "--components": "how many there are",
    "--target": "the column to be explained",
}


def _but(kind: Kind) -> tuple[Kind, ...]:
    return tuple(other for other in Kind if other is not kind)


def _refuse_odd(option: str, given: Mapping[str, Any], columns: Sequence[str]) -> None:
    unknown, without = sorted(set(given) - set(columns)), sorted(set(columns) - set(given))
    wrong = [f"not fitted: {', '.join(unknown)}"] * bool(unknown)
    wrong += [f"without one: {', '.join(without)}"] * bool(without)
    if wrong:
        raise click.UsageError(
            f"{option} is for every column fitted or for none; {'; '.join(wrong)}"
        )


def fit_file(
    settings: Settings,
    data: Path,
    columns: Sequence[str] | None,
    weight: str | None,
    destination: Path,
    quiet: bool,
    types: Mapping[str, str] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Fit a file and save the model; the estimator and a summary fit for JSON."""
    estimator = settings.estimator()
    start = time.perf_counter()
    with (
        reading_data(),
        warnings.catch_warnings(record=True) as caught,
        FitProgress(estimator.max_iter, quiet) as progress,
    ):
        warnings.simplefilter("always")
        estimator._watch = progress.watch
        if settings.kind is Kind.categorical:
            counted = fit_categories(settings, estimator, data, columns, weight)
        else:
            opened = _open(settings, data, columns, weight, types)
            # Only an exact fit counts its rows, on the screen or in the summary, or minds having
            # none.
            rows: Any = WatchedRows(opened, progress.seen) if settings.exact else opened
            # A .npy file has no names: the ones that privem sample gives its columns.
            names = rows.names or [f"x{j}" for j in range(rows.n_features)]
            settings.tell(estimator, names[:-1] if settings.target else names)
            estimator.fit(rows)
            counted = (rows.count, rows.total_weight) if settings.exact else None
        del estimator._watch
    seconds = time.perf_counter() - start
    try:
        estimator.save(destination)
    except OSError as error:
        raise CannotWrite(destination, error.strerror or str(error)) from error
    stopped = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    summary: dict[str, Any] = {
        "model": str(settings.kind),
        "data": str(data),
        "output": str(destination),
        "columns": estimator._names(),
        **({"target": settings.target} if settings.target else {}),
        "components": settings.components,
        "private": not settings.exact,
        "epsilon": estimator.epsilon,
        "delta": None if settings.exact else estimator.delta,
        "statement": NOT_PRIVATE if settings.exact else str(estimator.privacy_),
        "iterations": int(estimator.n_iter_),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
    if counted is None:
        # How many rows there are, how long it took, what else was seen: nobody paid for it.
        return estimator, summary | {
            "privacy": estimator.privacy_.to_dict(),
            **public_results(estimator),
        }
    return estimator, summary | {
        "rows": counted[0],
        "total_weight": counted[1],
        "converged": not stopped,
        "seconds": round(seconds, 6),
        **exact_results(estimator, counted[1]),
    }


def _open(
    settings: Settings,
    data: Path,
    columns: Sequence[str] | None,
    weight: str | None,
    types: Mapping[str, str] | None,
) -> Any:
    """Rows of a file, a target as their last column."""
    if settings.target is not None:
        if data.suffix == ".npy":
            raise ValueError(f"{str(data)!r}: a .npy file has no column names, so no target column")
        if columns is None:
            columns = read_file(data, weight=weight, without=settings.target).names or ()
        columns = [*columns, settings.target]
    rows: Any = read_file(data, columns=columns, weight=weight, types=types)
    # A private fit maps bad values by a fixed rule: an error would be a release. And where values
    # may be missing, the estimator looks itself.
    if not settings.exact or settings.kind is Kind.missing_regression:
        rows = replace(rows, check=False)
    return rows


def fit_categories(
    settings: Settings,
    estimator: Any,
    data: Path,
    columns: Sequence[str] | None,
    weight: str | None,
) -> tuple[int, float] | None:
    """Fit columns of categories, read whole; how many rows and their weight, if that is exact."""
    table, weights = estimator._read(data, None, weight, reset=True)
    names = [f"x{j}" for j in range(table.shape[1])] if data.suffix == ".npy" else table.columns
    if columns is not None:
        for name in columns:
            if name not in names:
                raise ValueError(f"{str(data)!r} has no column {name!r}; it has {', '.join(names)}")
        table = table[:, [names.index(name) for name in columns]]
        names = list(columns)
    settings.tell(estimator, names)
    estimator.fit(table, sample_weight=weights)
    if not settings.exact:
        return None
    return len(table), float(len(table) if weights is None else weights.sum())
