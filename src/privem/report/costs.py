"""What was released, and which part of the budget each release took."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import Spent
from ..meter import Statement
from .html import Html, clean, figure, join, table, tag
from .svg import stack

# What releases are for, by the first word of their names; others stand without words.
_PURPOSES = {
    "count": "how many records there are",
    "bounds": "where the columns lie",
    "scales": "how large values are",
    "frame": "position and spread of all records",
    "grid": "counts on a grid, for a start",
    "pairs": "tables of pairs of columns, for a start",
    "squares": "size of the records, for a start",
    "direction": "direction of the components, for a start",
    "shape": "spread of the covariates",
    "residuals": "spread of the residuals",
    "EM": "sums of one iteration each",
    "em": "mean and spread, looked at again",
    "k-means": "sums of one iteration each",
    "cells": "counts of cells of each column",
    "tables": "counts in tables of columns",
    "contest": "whether several components are better than one",
    "background": "how much the components leave unexplained",
    "categories": "texts that occur often enough",
}


@dataclass(frozen=True)
class Line:
    """Releases that differ by their number only."""

    name: str
    purpose: str
    releases: int
    numbers: int
    share: float
    multipliers: tuple[float, float]


def lines(statement: Statement) -> list[Line]:
    """The releases of a statement, in order, those of one kind together.

    A release's part is its 1/m^2, of noise that is m times the sensitivity, in the sum of all:
    these add up exactly for Gaussian noise, and 1/(2 m^2) bounds Laplace noise in zCDP. Where all
    noise is Laplace, 1/m is the epsilon, and adds up. If records are in cells of a partition, each
    part is of what somebody in the most expensive cell pays.
    """
    groups = [group for record in statement.releases for group in record.groups]
    power = 1 if groups and all(group.kind == "laplace" for group in groups) else 2

    def cost(spent: Sequence[Spent]) -> float:
        return sum(group.multiplier**-power for group in spent)

    common = [group for group in groups if group.cell is None]
    cells = {group.cell for group in groups} - {None}
    each = [cost([group for group in groups if group.cell == cell]) for cell in cells]
    total = (cost(common) + max(each, default=0.0)) or 1.0
    found: dict[str, list[tuple[str, Sequence[Spent]]]] = {}
    for record in statement.releases:
        key = re.sub(r"\s*\d+$", "", record.name)
        found.setdefault(key, []).append((record.name, record.groups))
    made = []
    for key, records in found.items():
        spent = [group for _, part in records for group in part]
        multipliers = [group.multiplier for group in spent]
        mine = {group.cell for group in spent} - {None}
        most = max((cost([g for g in spent if g.cell == cell]) for cell in mine), default=0.0)
        share = (cost([g for g in spent if g.cell is None]) + most) / total
        numbers = sum(group.dimension for group in spent if not group.failure)
        ends = (min(multipliers, default=0.0), max(multipliers, default=0.0))
        purpose = _PURPOSES.get(key, "")
        made.append(Line(key, purpose, len(records), numbers, share, ends))
    return made


def costs(statement: Statement) -> Html:
    """The releases and their parts of the budget, as a picture and a table."""
    found = lines(statement)
    rows = []
    for i, line in enumerate(found):
        low, high = (f"{end:.3g}" for end in line.multipliers)
        noise = low if low == high else f"{low} to {high}"
        label = join([f"{i + 1}. ", tag("b", clean(line.name)), f" {line.purpose}"])
        cells = (f"{line.releases:,}", f"{line.numbers:,}", noise, f"{line.share:.1%}")
        rows.append((label, cells))
    count = len(statement.releases)
    said = (
        f"Everything that left the data: {count:,} release{'s' * (count != 1)}, in order. Nothing "
        "else on this page was computed from records."
    )
    columns = ["releases", "numbers", "noise", "part of the budget"]
    note = (
        "Noise: its scale in units of the most that one "
        f"{statement.unit} can change the sum. Part of the budget: how much of the whole cost "
        "these releases are, by 1/noise², which adds up."
    )
    drawn = figure(stack([(clean(line.name), line.share) for line in found]))
    return join(
        [tag("p", said), drawn, table("Releases", columns, rows), tag("p", note, class_="note")]
    )
