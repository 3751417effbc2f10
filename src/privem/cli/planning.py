"""``privem plan``, and the forecast of ``privem fit``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..core import Release, Stage
from ..declaration import Declaration
from ..estimator.verbose import watching
from ..meter import cost
from ..planning.forecast import Forecast
from ..planning.plan import plan
from ..report.pairs import save_figure
from .console import note
from .failures import ExitCode, Failure, writing_file
from .options import refuse_others
from .progress import FitProgress

# Rehearsals before a fit, at most; and of a plan with what it looks for, about.
_FEW, _ABOUT = 3, 40


@dataclass
class Foresight:
    """Says what a fit will come to before it spends, and asks where that is not worth it.

    Parameters
    ----------
    rows : int or None
        How many records there are, if somebody has said so; otherwise their public number or, where
        there is none, the noisy count that a fit begins with. That is then spent already.
    yes : bool
        Whether to go on in any case.
    silent : bool
        Whether to say nothing.
    about : str
        Which of several models it is about.
    """

    rows: int | None
    yes: bool
    silent: bool
    about: str = ""
    _fitted: Any = None
    _done: bool = False
    _spent: float | None = None

    @contextmanager
    def watching(self, estimator: Any, pause: Callable[[], None]) -> Iterator[None]:
        """While entered, private fits of the estimator are forecast; ``pause`` before asking."""

        def before(fitted: Any, public: float | None) -> None:
            self._fitted = fitted
            records = public if self.rows is None else self.rows
            if records is not None:
                self._forecast(records, pause)

        def watch(stage: Stage, release: Release[Any]) -> None:
            if stage.name == "count" and not self._done:
                terms = self._fitted._terms()
                budget = (terms.failure, terms.delta, terms.accountant)
                self._spent = cost(release.spent, *budget)
                self._forecast(float(release.statistics.count), pause)

        if estimator.epsilon is None:
            yield
            return
        estimator._before = before
        try:
            with watching(estimator, watch):
                yield
        finally:
            del estimator._before

    def _forecast(self, records: float, pause: Callable[[], None]) -> None:
        self._done = True
        if self.yes and self.silent:
            return
        rows = max(round(records), 1)
        try:
            # In a context of its own: a rehearsal inside a fit is no part of it.
            found = Context().run(_brief, self._fitted, rows)
        except Exception as error:  # A fit that is being paid for is not lost over its forecast.
            note(f"no forecast: {error}")
            return
        if not self.silent:
            pause()
            note(f"{self.about}{found.line}")
        if found.useless is not None and not self.yes:
            self._ask(found, pause)

    def _ask(self, found: Forecast, pause: Callable[[], None]) -> None:
        """Go on, or stop."""
        spent = "nothing has been spent"
        if self._spent is not None:
            delta = found.delta
            spent = f"only the count has been spent (epsilon {self._spent:.2g} at delta {delta:g})"
        if not _asks():
            raise Failure(
                ExitCode.USAGE,
                f"not fitted, {spent}: {found.useless} (forecast for about {found.rows:,} records; "
                "privem plan says more). To fit nevertheless, give --yes",
            )
        pause()
        if not click.confirm("Spend the budget on it?", default=False, err=True):
            raise Failure(ExitCode.USAGE, f"not fitted, {spent}")


def _asks() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _brief(estimator: Any, rows: int) -> Forecast:
    """A forecast within a second or so."""
    d = int(estimator.n_features_in_)
    return plan(estimator, rows, d, accuracy=None, rehearsals=_FEW)


def make_plan(
    model: Declaration,
    rows: int,
    features: int | None,
    bounded: bool,
    categories: int,
    accuracy: float,
    separation: float,
    rehearsals: int | None,
    random_state: int | None,
    quiet: bool,
    **options: Any,
) -> Forecast:
    """Plan a fit with these options."""
    given = {name: value for name, value in options.items() if value is not None}
    refuse_others(model, given)
    if isinstance(given.get("components"), range):
        raise click.UsageError("a plan is for one number of --components, and not for a range")
    if "components" not in given and model.count is not None and not model.schema:
        raise click.UsageError(f"--model {model.command} needs --components: how many there are")
    parameters = {
        str(model.count) if name == "components" else name: value for name, value in given.items()
    }
    for name in ("bounds", "target_bounds"):
        if bounded and name in model.parameters:
            parameters[name] = (0.0, 1.0)  # which ones does not matter: records are made up
    if features is None and "schema" not in given:
        raise click.UsageError("--features says how many columns there are")
    with FitProgress(_ABOUT, quiet, timed=True) as progress:
        try:
            return plan(
                model.estimator(**parameters),
                rows,
                features,
                accuracy=accuracy,
                separation=separation,
                categories=categories,
                rehearsals=rehearsals,
                random_state=random_state or 0,
                watch=lambda done: progress.step(f"rehearsal {done}", done),
            )
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error


def draw(forecast: Forecast, picture: Path) -> None:
    """Save the picture of a plan."""
    with writing_file(picture):
        save_figure(forecast.plot(), picture)
