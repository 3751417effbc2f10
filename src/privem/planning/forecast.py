"""What a private fit can be expected to come to: a table, a sentence and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..declaration import counted
from .rehearsal import Rehearsals

# Budgets and numbers of records among which the least that is enough is looked for.
EPSILONS = [0.01 * 2 ** (step / 2) for step in range(23)]
ROWS = [round(100 * 10 ** (step / 4)) for step in range(25)]
# Rehearsals for each point of a picture, and its epsilons, times the one asked for.
_TIMES, _STEPS = 5, (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
# Records in a picture, times those asked for.
_ROWS = (1 / 4, 1, 4)
# Losses below this, of either sign, are chance; and noise below this is not worth a line.
_SMALL, _UNSEEN = 0.002, 1e-4
# A loss of this part of what the bounds alone lose is as bad.
_NOTHING = 0.95
_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00")


@dataclass(frozen=True)
class Forecast:
    """What to expect of a private fit, from public numbers alone; :func:`privem.plan` makes it.

    Losses are those of held-out records against exact EM: in nats per record or, for k-means, as a
    part of the mean squared distance to the nearest centre. ``print`` shows a table.

    Attributes
    ----------
    model : str
    rows, features : int
    components : int or None
    epsilon, delta : float
    structure : str
        What most rehearsals came to, as in ``structure_``; ``"stopped"``: bounds were not found.
    iterations : int
    loss : float or None
        In the middle of the rehearsals; ``None``: they stopped.
    between : (float, float) or None
        Half of the rehearsals lie between these.
    one_component : float or None
        The loss of the same fit with one component, where there are more.
    bounds_alone : float
        The loss of knowing nothing but the bounds.
    noise : dict
        The standard error that noise causes in each attribute, over the size of its numbers (of
        locations: over the standard deviation of a column).
    unit : str
    accuracy : float or None
        The loss that was wanted.
    epsilon_needed, rows_needed : float or None
        What that takes: another epsilon with as many rows, or more or fewer rows with this epsilon;
        ``None`` if none of those tried is enough, or nothing was wanted.
    rehearsals : int
    separation : float
    """

    model: str
    rows: int
    features: int
    components: int | None
    epsilon: float
    delta: float
    structure: str
    iterations: int
    loss: float | None
    between: tuple[float, float] | None
    one_component: float | None
    bounds_alone: float
    noise: dict[str, float]
    unit: str
    accuracy: float | None
    epsilon_needed: float | None
    rows_needed: int | None
    rehearsals: int
    separation: float
    _rehearsed: Rehearsals = field(repr=False, compare=False)

    @property
    def useless(self) -> str | None:
        """Why the fit is not worth its budget, if it is not."""
        if self.structure == "stopped":
            return "there are too few records to find bounds: give bounds, or more budget"
        if self.structure == "lost":
            return "the result will be mostly noise"
        if self.loss is None or self.loss >= _NOTHING * self.bounds_alone:
            return "the result will be no better than the bounds alone"
        if self.structure == "single" and (self.components or 1) > 1:
            return f"noise rules out more than one of the {self.components} components"
        return None

    @property
    def line(self) -> str:
        """All of it in one line.

        Examples
        --------
        >>> from privem import GaussianMixture, plan
        >>> plan(GaussianMixture(2), rows=100, features=5, accuracy=None, rehearsals=1).line
        'forecast for about 100 records: too few to find bounds; give bounds, or more budget'
        """
        start = f"forecast for about {self.rows:,} records: "
        if self.structure == "stopped":
            return f"{start}too few to find bounds; give bounds, or more budget"
        against = [f"bounds alone {self._said(self.bounds_alone)}"]
        if self.one_component is not None:
            against.insert(0, f"one component {self._said(self.one_component)}")
        said = (
            f"{start}structure {self._how}; {self._loss} worse than exact EM ({', '.join(against)})"
        )
        return f"{said}: {self.useless}" if self.useless else said

    @property
    def _size(self) -> str:
        of = [] if self.components is None else [counted(self.components, "component")]
        return ", ".join([counted(self.features, "feature"), *of])

    @property
    def _how(self) -> str:
        turns = f", {self.iterations} iterations" if self.iterations else ""
        return f"{self.structure}{turns}"

    @property
    def _loss(self) -> str:
        return f"{self._said(self.loss)} {self.unit}"

    def _said(self, loss: float | None) -> str:
        if loss is None or abs(loss) < _SMALL:
            return "-" if loss is None else f"less than {_SMALL:g}"
        return f"{loss:.2g}" if abs(loss) < 10 else f"{loss:.0f}"

    def _noisy(self) -> dict[str, str]:
        return {
            f"noise on {name.strip('_')}": f"{100 * noise:.2g}% of its size"
            for name, noise in self.noise.items()
            if noise > _UNSEEN
        }

    def __str__(self) -> str:
        facts = {"structure": self._how, "loss against exact EM": self._loss}
        if self.structure == "stopped":
            facts = {"structure": "the fit stops: bounds are not found"}
        if self.between is not None:
            facts["half of the time"] = " to ".join(map(self._said, self.between))
        if self.one_component is not None:
            facts["with one component"] = self._said(self.one_component)
        facts["with the bounds alone"] = self._said(self.bounds_alone)
        facts |= self._noisy()
        lines = [
            f"{self.model}: {counted(self.rows, 'record')}, {self._size}, "
            f"epsilon {self.epsilon:g}, delta {self.delta:g}",
            *(f"  {name:<26} {said}" for name, said in facts.items()),
        ]
        if self.useless:
            lines.append(f"Not worth its budget: {self.useless}.")
        if self.accuracy is not None:
            lines.append(self._needs)
        lines.append(
            f"From {counted(self.rehearsals, 'rehearsal')} on made-up records "
            f"({self.separation:g} deviations apart, in bounds three times as wide)."
        )
        return "\n".join(lines)

    @property
    def _needs(self) -> str:
        what = f"A loss of {self.accuracy:g} {self.unit}"
        ways = []
        if self.epsilon_needed is not None:
            ways.append(f"about epsilon {self.epsilon_needed:.2g}")
        if self.rows_needed is not None:
            ways.append(f"about {float(f'{self.rows_needed:.2g}'):,.0f} records")
        if not ways:
            return (
                f"{what} is not reached with epsilon up to {EPSILONS[-1]:.0f}, nor with "
                f"{ROWS[-1] / 1e6:.0f} million records."
            )
        return f"{what} needs {' or '.join(ways)}."

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        found = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return found | {"noise": dict(self.noise), "useless": self.useless}

    def plot(
        self, rows: Sequence[int] | None = None, epsilons: Sequence[float] | None = None
    ) -> Any:
        """Draw loss against epsilon for several numbers of records.

        This rehearses the fit many more times, so it takes a while.

        Parameters
        ----------
        rows : sequence of int, optional
            A line for each; by default a quarter of the rows, as many, and four times as many.
        epsilons : sequence of float, optional
            By default from a sixteenth of epsilon to eight times as much.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ..report.pairs import new_figure

        lines = [max(round(self.rows * part), 10) for part in _ROWS] if rows is None else list(rows)
        along = [self.epsilon * part for part in _STEPS] if epsilons is None else list(epsilons)
        figure = new_figure(8.6, 4.4, 120)
        axes = figure.add_subplot()
        axes.set_xscale("log")
        for colour, n in zip(_COLOURS * len(lines), lines, strict=False):
            losses = [self._rehearsed.median_loss(_TIMES, n, epsilon) for epsilon in along]
            shown = [max(loss, _SMALL) for loss in losses]
            axes.plot(along, shown, "o-", color=colour, label=f"{n:,} records")
        levels = {"bounds alone": self.bounds_alone, "one component": self.one_component}
        for style, (name, level) in zip(("--", ":"), levels.items(), strict=True):
            if level is not None:
                axes.axhline(level, linestyle=style, color="#6b7280", label=name)
        axes.set_xticks(along)
        axes.set_xticks([], minor=True)
        axes.set_xlabel("epsilon")
        axes.set_ylabel(f"loss against exact EM ({self.unit})")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.set_title(f"{self.model}, {self._size}, delta {self.delta:g}", loc="left")
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.set_layout_engine("constrained")
        return figure


def finite(value: float) -> float | None:
    """A number, or nothing where there is none."""
    return value if math.isfinite(value) else None
