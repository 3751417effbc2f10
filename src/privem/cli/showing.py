"""The end of ``privem demo``: what was found, and where it is."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..demo import Demo
from ..sources.local import effective_threads
from .console import numbers

__all__ = ["describe_demo"]


def describe_demo(demo: Demo) -> list[RenderableType]:
    """The components, the comparison, the files."""
    model = demo.model
    columns = ["weight", *(str(name) for name in model.feature_names_in_)]
    labels = [str(k) for k in range(len(model.weights_))]
    values = np.column_stack([model.weights_, model.means_]).tolist()
    return [
        f"\nWeight and mean of each component ({model.n_iter_} iterations from the file):\n",
        *numbers("k", labels, columns, values),
        "\nHeld-out log-likelihood, mean of "
        f"{demo.held_out:,} people the fit has not seen:\n"
        f"  the model          {demo.held_out_score:12.6f}\n"
        f"  a single Gaussian  {demo.single:12.6f}\n\n"
        "Beside scikit-learn, from the same start:\n",
        _comparison(demo),
        "",
        Text(_how(demo)),
        f"\n{_files(demo)}\n",
        Text("Nothing here is private: the demo fits exactly. privem fit --epsilon 1 does not."),
    ]


def _comparison(demo: Demo) -> Table:
    ours, peer = demo.privem, demo.peer
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("")
    for name in ("privem", "scikit-learn", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("iterations", str(ours.iterations), str(peer.iterations), "")
    threads = f"threads as they are ({effective_threads(None)})"
    times = {
        "iteration, 1 thread, CPU ms": (1e3, ours.per_iteration.cpu, peer.per_iteration.cpu),
        "iteration, 1 thread, wall ms": (1e3, ours.per_iteration.wall, peer.per_iteration.wall),
        "whole fit, 1 thread, wall s": (1.0, ours.whole.wall, peer.whole.wall),
        f"iteration, {threads}, wall ms": (
            1e3,
            ours.per_iteration_threaded.wall,
            peer.per_iteration_threaded.wall,
        ),
    }
    for label, (unit, first, second) in times.items():
        digits = 1 if unit > 1 else 2
        cells = (f"{unit * first:.{digits}f}", f"{unit * second:.{digits}f}")
        table.add_row(label, *cells, f"{second / first:.1f}x")
    scores = (f"{ours.log_likelihood:.6f}", f"{peer.log_likelihood:.6f}")
    table.add_row("held-out log-likelihood", *scores, "")
    return table


def _how(demo: Demo) -> str:
    """What was measured, and what the ratios do not mean."""
    text = (
        f"Both in this process, {demo.rows:,} rows in memory, the same stopping rule; one "
        "iteration is (whole fit - fit of one iteration) / (iterations - 1). The rows with 1 "
        "thread compare the algorithms, CPU time best, as it depends least on what else the "
        "machine is doing; threads as they are include how well BLAS threading suits it. "
        f"Largest difference between the means: {demo.difference:.0e} standard deviations."
    )
    slower = demo.peer.per_iteration_threaded.wall / demo.peer.per_iteration.wall
    if slower > 1.5:
        text += (
            f" More BLAS threads make scikit-learn {slower:.1f}x slower here: that part of the "
            "threaded ratio is not privem's doing."
        )
    return text


def _files(demo: Demo) -> str:
    what = {
        "people": "the people",
        "model": "the model: privem score, privem sample",
        "synthetic": "as many records drawn from the model",
        "picture": "the picture",
    }
    width = max(len(str(path)) for path in demo.files.values())
    lines = [f"  {path!s:<{width}}  {what[name]}" for name, path in demo.files.items()]
    if demo.remark:
        lines.append(f"  {demo.remark}")
    return "\n".join(lines)
