"""What a paper's folder declares: its claims, the work behind each, and how results are judged."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

HOLDS, REPAIRED, FAILS = "holds", "holds repaired", "does not hold"
VERDICTS = (HOLDS, REPAIRED, FAILS)
# Verdicts rest on so many repetitions of whatever depends on chance.
LEAST_REPETITIONS = 10

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One piece of work: a function at the top of a module, and its arguments.

    Arguments, and what the function returns (a dict, or a list of dicts), are what JSON can hold.
    A cell should take seconds, a minute at most: whatever is not finished when a run is killed is
    done again.
    """

    function: Callable[..., Row | list[Row]]
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        """Module and name of the function, as ``wu2021.run.errors``."""
        return f"{self.function.__module__}.{self.function.__qualname__}"


def grid(function: Callable[..., Row | list[Row]], **axes: Any) -> list[Cell]:
    """A cell for every combination; lists, tuples and ranges are axes, other values are the same.

    >>> def errors(n, epsilon, repetition): ...
    >>> len(grid(errors, n=[1000, 2000], epsilon=0.5, repetition=range(10)))
    20
    """
    values = [
        list(value) if isinstance(value, list | tuple | range) else [value]
        for value in axes.values()
    ]
    return [Cell(function, dict(zip(axes, chosen, strict=True))) for chosen in product(*values)]


class Rows(list[Row]):
    """What cells found: for each the arguments and the results, in one dict."""

    def where(self, **values: Any) -> Rows:
        """Rows with these values."""
        return Rows(row for row in self if all(row.get(k) == v for k, v in values.items()))

    def of(self, name: str) -> np.ndarray:
        """One number of every row that has it."""
        found = [row[name] for row in self if row.get(name) is not None]
        return np.array(found, dtype=float)

    def groups(self, name: str) -> Iterator[tuple[Any, Rows]]:
        """Rows by the values that they have of a name, in the order of appearance."""
        for value in dict.fromkeys(row[name] for row in self if name in row):
            yield value, self.where(**{name: value})


def spread(values: Iterable[float], form: str = ".3g") -> str:
    """The median, with the lowest and the highest.

    >>> spread([1.0, 2.0, 4.0])
    '2 (1 to 4)'
    """
    found = np.sort(np.fromiter(values, dtype=float))
    return f"{np.median(found):{form}} ({found[0]:{form}} to {found[-1]:{form}})"


@dataclass(frozen=True)
class Finding:
    """What became of one statement of a paper.

    Parameters
    ----------
    verdict : str
        ``HOLDS``, ``REPAIRED`` (it holds for our repaired method, and not as printed) or ``FAILS``.
    ours : str
        Our number, beside the paper's; with :func:`spread` where it depends on chance.
    reason : str
        One or two sentences: why.
    repetitions : int or None
        How many repetitions the verdict rests on; None of a calculation without chance.
    """

    verdict: str
    ours: str
    reason: str
    repetitions: int | None

    def check(self, quick: bool) -> None:
        """Complain about a verdict that rests on too little."""
        if self.verdict not in VERDICTS:
            raise ValueError(f"unknown verdict {self.verdict!r}; there are {', '.join(VERDICTS)}")
        enough = self.repetitions is None or self.repetitions >= LEAST_REPETITIONS
        if not enough and not quick:
            raise ValueError(f"{self.repetitions} repetitions are too few for a verdict: {self}")


@dataclass(frozen=True)
class Claim:
    """A figure or a table of a paper.

    Parameters
    ----------
    cells : callable
        ``cells(quick)``: the work. Cells of several claims that are the same are done once.
    judge : callable
        ``judge(rows)``: a :class:`Finding` for each statement that expected.json has of this claim;
        of a quick run, for those that its cells are about.
    draw : callable, optional
        ``draw(rows)``: a matplotlib figure (:mod:`reproduction.pictures`).
    table : callable, optional
        ``table(rows)``: lines of text for a table in the report, the first of them its head.
    """

    cells: Callable[[bool], list[Cell]]
    judge: Callable[[Rows], dict[str, Finding]]
    draw: Callable[[Rows], Any] | None = None
    table: Callable[[Rows], list[list[str]]] | None = None


@dataclass(frozen=True)
class Paper:
    """A paper's folder. Its code is loaded when it is first needed, not to list claims."""

    folder: Path

    @property
    def name(self) -> str:
        """Author and year, as ``wu2021``."""
        return self.folder.name

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What the paper says."""
        found: dict[str, Any] = json.loads((self.folder / "expected.json").read_text("utf-8"))
        return found

    @property
    def ids(self) -> list[str]:
        """Names of the claims, as ``wu2021-fig1``."""
        return [f"{self.name}-{key}" for key in self.expected["claims"]]

    @cached_property
    def module(self) -> Any:
        """Its run.py."""
        above = str(self.folder.parent)
        if above not in sys.path:
            sys.path.insert(0, above)
        module = import_module(f"{self.name}.run")
        told, made = list(self.expected["claims"]), list(module.CLAIMS)
        if told != made:
            raise ValueError(f"{self.name}: expected.json has the claims {told}, run.py has {made}")
        return module


def find_papers(folder: Path) -> list[Paper]:
    """The papers whose folders, such as ``wu2021``, lie in a folder."""
    return [
        Paper(path)
        for path in sorted(folder.iterdir())
        if re.fullmatch(r"[a-z]+(19|20)\d\d", path.name) and (path / "expected.json").exists()
    ]
