"""Exact EM: iterate until the objective stands still."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .core import Model, Release, Stage
from .noise.exact import Exact

__all__ = ["ExactEM", "Fit"]

State = TypeVar("State")


@dataclass(frozen=True)
class Fit(Generic[State]):
    """Where EM ended, and how it got there."""

    state: State
    objective: float
    """The objective before the last M-step, as scikit-learn's ``lower_bound_``."""
    n_iter: int
    converged: bool
    history: list[float] = field(default_factory=list)
    previous: State | None = None
    """The state before the last M-step."""


@dataclass(frozen=True)
class ExactEM(Generic[State]):
    """EM from ``start`` until ``stop`` says so, or ``max_iter`` iterations.

    Parameters
    ----------
    model : Model
    start : state
    max_iter : int
    stop : callable
        ``stop(change of the objective, old state, new state)``.
    name : str
        Shown with the progress.
    before : float
        The objective to compare the first one with; minus infinity but for warm starts.
    """

    model: Model[State, Any]
    start: State
    max_iter: int
    stop: Callable[[float, State, State], bool]
    name: str = "EM"
    before: float = float("-inf")

    def stages(self) -> Generator[Stage, Release[Any], Fit[State]]:
        """Generate the stages."""
        old = state = self.start
        history, converged = [], False
        value, remark = self.before, ""
        for iteration in range(1, self.max_iter + 1):
            stage = Stage(
                self.model.query(state), Exact(), f"{self.name} {iteration}", progress=remark
            )
            release = yield stage
            before, value = value, self.model.objective(state, release)
            history.append(value)
            old, state = state, self.model.m_step(state, release)
            remark = f"objective {value:.6g}"
            if self.stop(value - before, old, state):
                converged = True
                break
        return Fit(state, value, len(history), converged, history, old)
