"""The pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from reproduction import Rows
from reproduction.pictures import BLACK, legend, line, panels

from .judge import MIDDLE, best

NAMES = {
    "exact EM": "EM, not private",
    "clipped": "Algorithm 1, C = 1",
    "as printed": "Algorithm 2 as printed",
    "repaired": "Algorithm 2, repaired",
    "privem": "privem's default",
}
TRUSTS = ("central", "local")
ERROR = "error |b - b*|, in sigma"


def plain(axes: Any, at: list[float], which: str = "x") -> None:
    """Ticks at these values, as numbers people write."""
    axis = getattr(axes, f"{which}axis")
    axis.set_ticks(at, [short(value) for value in at])
    axis.set_ticks([], minor=True)


def short(value: float) -> str:
    """As 0.5, 20, 10k or 1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def against(axes: Any, rows: Rows, name: str, leave: str = "") -> None:
    """Errors of all methods against one thing, the others in the middle."""
    values = sorted({row[name] for row in rows})
    for method in [each for each in NAMES if each != leave]:
        chosen = Rows(row for value in values for row in best(rows.where(**{name: value}), method))
        line(axes, chosen, name, "error", NAMES[method], method)
    axes.set(xscale="log", yscale="log")
    plain(axes, values)


def figure(rows: Rows) -> Any:
    """Figures 2 to 4."""
    ends = Rows(row for row in rows if row.get("start") == "near")
    told = {
        "epsilon": "epsilon (delta = 1e-6)",
        "d": "dimension d",
        "n": "records n",
        "snr": "|b*| over sigma",
    }
    made, all_axes = panels([""] * 5)
    for axes, (name, label) in zip(all_axes, told.items(), strict=False):
        others = {key: value for key, value in MIDDLE.items() if key != name}
        against(axes, ends.where(**others), name)
        axes.set(xlabel=label)
    paths = Rows(row for row in rows if "t" in row)
    for method in NAMES:
        if method != "repaired":
            line(all_axes[4], paths.where(method=method), "t", "error", NAMES[method], method)
    all_axes[4].set(xlabel="iteration t", yscale="log")
    titles = ["n = 10k, d = 10", "n = 10k, epsilon = 0.5", "d = 10, epsilon = 0.5"]
    for axes, title in zip(
        all_axes, [*titles, *["n = 10k, d = 10, epsilon = 0.5"] * 2], strict=True
    ):
        axes.set(title=title, ylabel=ERROR)
        nice(axes)
    beside(made, all_axes[0], (0.76, 0.17))
    return made


def beside(made: Any, axes: Any, where: tuple[float, float]) -> None:
    """The legend, in the place of a last panel."""
    made.legend(*axes.get_legend_handles_labels(), loc="center", bbox_to_anchor=where)


def nice(axes: Any) -> None:
    """Ticks on a logarithmic axis of errors."""
    low, high = axes.get_ylim()
    ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if low <= t <= high]
    plain(axes, ticks, "y")


def fig1(rows: Rows) -> Any:
    """Thresholds."""
    looks = {0.1: "other", 1.0: "clipped", 5.0: "repaired", 10.0: "another"}
    kinds = list(rows.groups("kind"))
    made, all_axes = panels([kind for kind, _ in kinds])
    for axes, (_, found) in zip(all_axes, kinds, strict=True):
        line(axes, found.where(clip=None), "t", "error", NAMES["exact EM"], "exact EM")
        for clip, look in looks.items():
            line(axes, found.where(clip=clip), "t", "error", f"C = {clip:g}", look, markevery=4)
        axes.set(xlabel="iteration t", ylabel=ERROR, yscale="log", xticks=range(0, 21, 5))
        nice(axes)
    beside(made, all_axes[0], (0.76, 0.25))
    return made


def real(rows: Rows) -> Any:
    """Figure 5."""
    made, (axes,) = panels([f"{rows[0]['name']}, n = {rows[0]['n']:,}"])
    against(axes, rows, "epsilon", leave="exact EM")  # which is what distances are from
    start = float(np.median(rows.where(method="start").of("error")))
    axes.axhline(start, color=BLACK, linewidth=1)
    axes.annotate(
        "start", (1, start), (-4, 4), ("axes fraction", "data"), "offset points", ha="right"
    )
    axes.set(xlabel="epsilon (delta = 1e-6)", ylabel="error, in sigma")
    nice(axes)
    legend(made, [axes], columns=1)
    return made


def thm2(rows: Rows) -> Any:
    """Private means against n."""
    made, all_axes = panels([f"{trust}, epsilon = 1" for trust in TRUSTS])
    names = {
        "exact EM": ("mean, not private", "exact EM"),
        "lemma 1": ("with Lemma 1's s", "another"),
    }
    names |= {"as printed": ("Theorem 2", "as printed"), "privem": ("privem's default", "privem")}
    for axes, trust in zip(all_axes, TRUSTS, strict=True):
        found = rows.where(trust=trust, epsilon=1.0)
        for method, (label, look) in names.items():
            line(axes, found.where(method=method), "n", "error", label, look)
        axes.set(xscale="log", yscale="log", xlabel="numbers n", ylabel="absolute error")
        plain(axes, sorted({row["n"] for row in found}))
    legend(made, all_axes, columns=2)
    return made
