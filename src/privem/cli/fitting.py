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

from ..estimators import FactorAnalysis, GaussianMixture, KMeans
from ..report import CannotWrite
from ..sources import read_file
from .failures import reading_data
from .progress import FitProgress, WatchedRows
from .summary import NOT_PRIVATE, exact_results, public_results

__all__ = [
    "Covariance",
    "Kind",
    "Neighbours",
    "PriorKind",
    "Settings",
    "fit_file",
]


class Kind(StrEnum):
    """Models by their short names."""

    gmm = "gmm"
    kmeans = "kmeans"
    fa = "fa"


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


class PriorKind(StrEnum):
    """Priors of a mixture."""

    map = "map"


@dataclass(frozen=True)
class Settings:
    """The options of ``privem fit`` that say what to fit; ``None`` is the model's own default."""

    kind: Kind
    components: int
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

    def estimator(self) -> Any:
        """The estimator, its parameters checked."""
        count = "n_clusters" if self.kind is Kind.kmeans else "n_components"
        given: dict[str, Any] = {count: self.components, "n_jobs": self.n_jobs}
        if self.exact:
            given["epsilon"] = None
        self._refuse_the_other_kind()
        options = {
            "epsilon": (self.epsilon, "--epsilon", tuple(Kind)),
            "delta": (self.delta, "--delta", tuple(Kind)),
            "neighbours": (self.neighbours, "--neighbours", tuple(Kind)),
            "n_iter": (self.n_iter, "--n-iter", (Kind.gmm, Kind.kmeans)),
            "covariance_type": (self.covariance, "--covariance", (Kind.gmm,)),
            "prior": (self.prior, "--prior", (Kind.gmm,)),
            "n_init": (self.n_init, "--n-init", (Kind.gmm, Kind.kmeans)),
            "max_iter": (self.max_iter, "--max-iter", tuple(Kind)),
            "tol": (self.tol, "--tol", tuple(Kind)),
            "random_state": (self.seed, "--seed", tuple(Kind)),
        }
        for name, (value, option, kinds) in options.items():
            if value is None:
                continue
            if self.kind not in kinds:
                words = " and ".join(kinds)
                raise click.UsageError(f"{option} is for {words}, not for --model {self.kind}")
            given[name] = str(value) if isinstance(value, StrEnum) else value
        if self.n_jobs == 0:
            raise click.UsageError("--n-jobs must not be 0; -1 means every core")
        self.limits([])
        classes = {Kind.gmm: GaussianMixture, Kind.kmeans: KMeans, Kind.fa: FactorAnalysis}
        estimator: Any = classes[self.kind](**given)
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

    def limits(self, columns: Sequence[str]) -> Any:
        """``bounds=`` for these columns, or for none of them a check of the options' form."""
        found: dict[str, tuple[float, float]] = {}
        for text in self.bounds:
            column, equals, values = text.rpartition("=")
            try:
                low, high = (float(value) for value in values.split(":"))
            except ValueError:
                equals = ""
            if not equals or column in found or not low < high:
                raise click.UsageError(
                    f"--bound {text!r} is not COLUMN=LOW:HIGH with LOW below HIGH, once per column"
                )
            found[column] = (low, high)
        if not found or not columns:
            return None
        if set(found) != set(columns):
            unknown, without = sorted(set(found) - set(columns)), sorted(set(columns) - set(found))
            wrong = [f"not fitted: {', '.join(unknown)}"] * bool(unknown)
            wrong += [f"without one: {', '.join(without)}"] * bool(without)
            raise click.UsageError(
                f"--bound is for every column fitted or for none; {'; '.join(wrong)}"
            )
        return tuple(zip(*(found[name] for name in columns), strict=True))


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
        opened: Any = read_file(data, columns=columns, weight=weight, types=types)
        if not settings.exact:
            # A private fit maps bad values by a fixed rule: an error would be a release.
            opened = replace(opened, check=False)
        # Only an exact fit counts its rows, on the screen or in the summary, or minds having none.
        rows: Any = WatchedRows(opened, progress.seen) if settings.exact else opened
        if settings.bounds:
            # A .npy file has no names: the ones that privem sample gives its columns.
            made_up = [f"x{j}" for j in range(rows.n_features)]
            estimator.bounds = settings.limits(rows.names or made_up)
        estimator._watch = progress.watch
        estimator.fit(rows)
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
        "components": settings.components,
        "private": not settings.exact,
        "epsilon": estimator.epsilon,
        "delta": None if settings.exact else estimator.delta,
        "statement": NOT_PRIVATE if settings.exact else str(estimator.privacy_),
        "iterations": int(estimator.n_iter_),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
    if not settings.exact:
        # How many rows there are, how long it took, what else was seen: nobody paid for it.
        return estimator, summary | {
            "privacy": estimator.privacy_.to_dict(),
            **public_results(estimator),
        }
    return estimator, summary | {
        "rows": rows.count,
        "total_weight": rows.total_weight,
        "converged": not stopped,
        "seconds": round(seconds, 6),
        **exact_results(estimator, rows.total_weight),
    }
