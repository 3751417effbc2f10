"""What a model was chosen from, if it was: the section of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .html import Html, clean, section, table, tag
from .numbers import rounded


def chosen_from(model: Any) -> Html | None:
    """The candidates of a selection with their released scores; none, if there was no choice."""
    known: Mapping[str, Any] | None = getattr(model, "selection_", None)
    if known is None:
        return None
    rows = [(clean(each["name"]), _cells(each)) for each in known["candidates"]]
    noise = known["difference_deviation"]
    said = (
        "One candidate was left for the noise to allow, so nothing was scored."
        if noise is None
        else "Scores are mean log-densities of the records, released with noise in one joint "
        "release; the statement covers it, the fits and the choice. A difference of two scores has "
        f"noise of deviation {noise:.3g}, less than the scores, which share most of theirs. Of "
        "candidates less than three of these behind the best, the one with the fewest parameters "
        "was chosen."
    )
    caption = "Candidates, their scores and the standard error that noise causes in each:"
    columns = ["what became of it", "score", "± noise", "parameters", "how"]
    return section("Chosen from", table(caption, columns, rows, "candidate"), tag("p", said))


def _cells(each: Mapping[str, Any]) -> list[str]:
    score, noise = "", ""
    if each["score"] is not None and each["deviation"] is not None:
        score, noise = rounded(each["score"], each["deviation"], 3)
    free = "" if each["parameters"] is None else f"{each['parameters']:,}"
    return [clean(each["status"]), score, noise, free, clean(each["how"])]
