"""What a selection returns: the best model, the scores, and what became of each candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..estimator.measured import PrivateScores, say_measured
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


@dataclass(frozen=True, repr=False, eq=False)
class Selection:
    """The best of several private models, chosen and fitted within one budget.

    Printed, it is a table of the candidates and the statement.

    Attributes
    ----------
    best_ : estimator
        Fitted. Its ``privacy_`` is the statement of the whole selection.
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
        lines = [str(candidate) for candidate in self.candidates_]
        if self.scores_ is not None:
            noise = self.scores_.difference_deviation
            lines.append(
                f"a difference of scores has noise of deviation {noise:.3g}; of those that are not "
                "clearly behind the best, the one with the fewest parameters is chosen"
            )
        return lines

    def __str__(self) -> str:
        return "\n".join([*self._lines(), str(self.privacy_)])

    def __repr__(self) -> str:
        chosen = next(c.name for c in self.candidates_ if c.status == "chosen")
        return f"<{type(self).__name__}: {chosen}, of {len(self.candidates_)} candidates>"
