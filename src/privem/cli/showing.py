"""The end of ``privem demo``: what was found, and where it is."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..demo import Demo
from .console import numbers

__all__ = ["describe_demo"]


def describe_demo(demo: Demo) -> list[RenderableType]:
    """The components, what privacy costs, the statement, the files."""
    model = demo.model
    columns = ["weight", *(str(name) for name in model.feature_names_in_)]
    labels = [str(k) for k in range(len(model.weights_))]
    values = np.column_stack([model.weights_, model.means_]).tolist()
    return [
        "\nThe private model: weight and mean of each component\n",
        *numbers("k", labels, columns, values),
        f"\nHeld-out log-likelihood per person, of {demo.held_out:,} people no fit has seen\n",
        _scores(demo),
        "",
        Text(_meaning(demo)),
        "\nThe statement that is saved with the model\n",
        Text(str(model.privacy_)),
        f"\n{_files(demo)}",
    ]


def _scores(demo: Demo) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("")
    for name in ("epsilon", "log-likelihood", "against exact EM"):
        table.add_column(name, justify="right", no_wrap=True)
    count, epsilon = len(demo.model.weights_), f"{demo.model.privacy_.epsilon:g}"
    rows = (
        (f"exact EM, {count} components", "none", demo.exact),
        (f"private mixture, {count} components", epsilon, demo.private),
        ("private single Gaussian", epsilon, demo.single),
    )
    for label, budget, score in rows:
        loss = "" if budget == "none" else f"{score - demo.exact:+.3f}"
        table.add_row(label, budget, f"{score:.3f}", loss)
    return table


def _meaning(demo: Demo) -> str:
    """In words; and what nobody should do with people who do exist."""
    text = (
        "These people are synthetic. Of real ones, this table would itself be a release: the "
        "scores are exact, and two private fits of the same people cost what they cost together. "
        "Publish one model and its statement, and no score."
    )
    if demo.private <= demo.single:
        text = "Here a private single Gaussian does as well: there are too few people. " + text
    return text


def _files(demo: Demo) -> str:
    what = {
        "people": "the people; stays inside",
        "model": "the private model: privem sample, privem audit",
        "synthetic": "as many records drawn from it, as private as it is",
        "picture": "the picture",
    }
    width = max(len(str(path)) for path in demo.files.values())
    lines = [f"  {path!s:<{width}}  {what[name]}" for name, path in demo.files.items()]
    if demo.remark:
        lines.append(f"  {demo.remark}")
    return "\n".join(lines)
