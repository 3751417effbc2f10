"""What a selection returns: the best model, the scores, and what became of each candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..estimator.measured import CLEAR, PrivateScores, say_measured
from ..meter import Statement


@dataclass(frozen=True)
class Outcome:
    """What became of one candidate. All of it is public.

    Parameters
    ----------
    name : str
    status : {"chosen", "scored", "ruled out"}
    how : str
        How it was fitted, or why it was ruled out.
    score, deviation : float or None
        Its mean log-density, and the standard error that noise causes in it.
    parameters : int or None
        How many numbers are free.
    """

    name: str
    status: str
    how: str
    score: float | None = None
    deviation: float | None = None
    parameters: int | None = None

    def __str__(self) -> str:
        if self.score is None or self.deviation is None:
            return f"{self.name}: {self.status}; {self.how}"
        return f"{self.name}: {say_measured(self.score, self.deviation)}, {self.status}; {self.how}"


def remembered(outcomes: tuple[Outcome, ...], scores: PrivateScores | None) -> dict[str, Any]:
    """What a model that was chosen keeps of the choice (``selection_``), as JSON values."""
    noise = None if scores is None else float(scores.difference_deviation)
    return {"candidates": [asdict(each) for each in outcomes], "difference_deviation": noise}


def say_choice(known: Mapping[str, Any]) -> list[str]:
    """The candidates, a line each, and what the noise of their scores means."""
    lines = [str(Outcome(**each)) for each in known["candidates"]]
    noise = known["difference_deviation"]
    return lines if noise is None else [*lines, say_noise(noise)]


def say_noise(deviation: float) -> str:
    """What the noise of a difference of two scores means for the choice.

    Examples
    --------
    >>> say_noise(0.0123456)[:60]
    'a difference of two scores has noise of deviation 0.0123: of'
    """
    return (
        f"a difference of two scores has noise of deviation {deviation:.3g}: of candidates less "
        f"than {CLEAR:g} of these behind the best, the one with the fewest parameters is chosen"
    )


@dataclass(frozen=True, repr=False, eq=False)
class Selection:
    """The best of several private models, chosen and fitted within one budget.

    Printed, it is a table of the candidates and the statement.

    Attributes
    ----------
    best_ : estimator
        Fitted. Its ``privacy_`` is the statement of the whole selection, and its ``selection_``
        what it was chosen from; both are saved with it.
    scores_ : PrivateScores or None
        Mean log-densities of the candidates that were scored, with their noise; ``None`` where only
        one candidate was left.
    candidates_ : tuple of Outcome
        What became of each candidate, in the order given.
    privacy_ : Statement
        Of everything: count, bounds, fits and scores.
    """

    best_: Any
    scores_: PrivateScores | None
    candidates_: tuple[Outcome, ...]
    privacy_: Statement

    def _lines(self) -> list[str]:
        return say_choice(remembered(self.candidates_, self.scores_))

    def __str__(self) -> str:
        return "\n".join([*self._lines(), str(self.privacy_)])

    def __repr__(self) -> str:
        chosen = next(c.name for c in self.candidates_ if c.status == "chosen")
        return f"<{type(self).__name__}: {chosen}, of {len(self.candidates_)} candidates>"

    def _repr_html_(self) -> str:
        """In a notebook: the short form of the best model."""
        shown: str = self.best_._repr_html_()
        return shown
