"""The pictures of Park et al. 2017."""

from __future__ import annotations

from typing import Any

import numpy as np
from reproduction import Rows
from reproduction.pictures import LOOKS, legend, line, logarithmic, panels

from .clusters import LLOYD, PARK

_SCORE = "log-likelihood\n(nats per record)"
_COMPOSED = {"linear": "other", "advanced": "another", "moments": "clipped", "zCDP": "repaired"}


def _ticks(axes: Any, values: tuple[float, ...]) -> None:
    """Plain numbers on a logarithmic axis."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.minorticks_off()


def _level(axes: Any, rows: Rows, name: str, label: str, look: str) -> None:
    """A horizontal line for what has no epsilon."""
    colour, _, dashes = LOOKS[look]
    low, middle, high = np.quantile(rows.of(name), (0.1, 0.5, 0.9))
    axes.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
    axes.axhline(middle, color=colour, linestyle=dashes, label=label)


def fig2_picture(rows: Rows) -> Any:
    """A stand-in for Stroke: all compositions; then what is near."""
    figure, (left, right) = panels(["GGG and LLG", "the same, closer"])
    shown = {
        "ggg linear": ("GGG linear", "other"),
        "ggg advanced": ("GGG advanced", "another"),
        "ggg zCDP": ("GGG zCDP, moments", "repaired"),
        "llg zCDP": ("LLG zCDP", "clipped"),
        "privem": ("privem", "privem"),
    }
    for axes in (left, right):
        _level(axes, rows.where(method="exact EM"), "score", "exact EM", "exact EM")
        _level(axes, rows.where(method="one Gaussian"), "score", "one Gaussian, exact", "single")
        for method, (label, look) in shown.items():
            line(axes, rows.where(method=method), "epsilon", "score", label, look)
        _ticks(axes, (0.1, 1.0, 4.0))
        axes.set_xlabel("epsilon at delta 1e-4")
    best = np.median(rows.where(method="exact EM").of("score"))
    right.set_ylim(best - 60, best + 5)
    left.set_ylabel(_SCORE)
    legend(figure, [left], 3)
    return figure


def fig3_picture(rows: Rows) -> Any:
    """Life Sciences, printed and repaired."""
    figure, (left, right) = panels(["GGG as printed", "GGG repaired, and privem"], sharey=True)
    for axes, kind in ((left, "printed"), (right, "ggg")):
        _level(axes, rows.where(method="exact EM"), "score", "exact EM", "exact EM")
        _level(axes, rows.where(method="one Gaussian"), "score", "one Gaussian, exact", "single")
        for name, look in _COMPOSED.items():
            line(axes, rows.where(method=f"{kind} {name}"), "epsilon", "score", name, look)
        _ticks(axes, (0.1, 0.3, 1.0, 2.0, 4.0))
        axes.set(xlabel="epsilon at delta 1e-4", ylim=(-6, 9.8))
    line(right, rows.where(method="privem"), "epsilon", "score", "privem")
    left.set_ylabel(_SCORE)
    legend(figure, [left, right], 4)
    return figure


def fig4_picture(rows: Rows) -> Any:
    """NICV of every repetition, a row of dots for each method."""
    names = {
        "exact": "exact EM",
        "privem": "privem",
        "theirs": "repaired",
        "theirs, printed": "as printed",
        "DPLloyd zCDP": "clipped",
        "DPLloyd zCDP, printed": "other",
        "DPLloyd linear": "another",
        "DPLloyd linear, printed": "single",
    }
    titles = {False: "101,920 places", True: "1,256,384 places"}
    given = [whole for whole in titles if rows.where(whole=whole)]
    figure, found = panels([titles[whole] for whole in given], sharey=True)
    for axes, whole in zip(found, given, strict=True):
        for at, (method, look) in enumerate(names.items()):
            values = rows.where(whole=whole, method=method).of("nicv")
            colour, marker, _ = LOOKS[look]
            axes.plot(values, np.full(len(values), -at), marker or "*", color=colour, alpha=0.5)
            axes.plot(np.median(values), -at, "|", color="black", markersize=18, markeredgewidth=2)
        axes.set(xscale="log", xlabel="held-out NICV")
        axes.set_yticks([-i for i in range(len(names))], list(names))
    return figure


def fig5_picture(rows: Rows) -> Any:
    """The first six factors: exact, and as printed."""
    from matplotlib.figure import Figure

    shown = [("exact EM", rows.where(method="exact EM")[0]["shown"])]
    for epsilon, part in rows.where(method="as printed").groups("epsilon"):
        shown += [(f"epsilon {epsilon:g}", row["shown"]) for row in part if row.get("shown")]
    figure = Figure(figsize=(8.4, 1.45 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 6, squeeze=False)
    for across, (name, factors) in zip(axes, shown, strict=True):
        for each, factor in zip(across, factors, strict=True):
            # The sign of a factor means nothing.
            upright = factor if np.mean(factor) > 127.5 else 255 - np.array(factor)
            # Sixteen greys, and pixels as they are: noise is large in a file.
            grey = np.reshape(upright, (64, 64)) // 16
            each.imshow(grey, cmap="gray", vmin=0, vmax=15, interpolation="nearest")
            each.set(xticks=[], yticks=[])
            each.grid(False)
        across[0].set_ylabel(name)
    return figure


def synthetic_picture(rows: Rows) -> Any:
    """EM on drawn records, against the budget of the model that they are drawn from."""
    figure, (axes,) = panels(["EM on drawn records"])
    _level(axes, rows.where(method="real records"), "score", "real records", "single")
    _level(axes, rows.where(method="exact EM"), "score", "drawn from exact EM", "exact EM")
    line(axes, rows.where(method="privem"), "epsilon", "score", "drawn from privem", "privem")
    line(axes, rows.where(method="ggg"), "epsilon", "score", "drawn from GGG, zCDP", "repaired")
    _ticks(axes, (0.1, 1.0, 4.0))
    axes.set(xlabel="epsilon at delta 1e-4", ylabel=_SCORE)
    legend(figure, [axes], 1)
    return figure


def mixtures_picture(rows: Rows) -> Any:
    """All recipes on every data set."""
    names = [name for name, _ in rows.groups("data")]
    figure, found = panels(names)
    shown = {
        "privem": ("privem", "privem"),
        "privem, nothing given": ("privem, nothing given", "clipped"),
        "joint": ("joint", "another"),
        "ggg": ("GGG", "repaired"),
        "llg": ("LLG", "other"),
        "laplace": ("Laplace", "as printed"),
    }
    for axes, name in zip(found, names, strict=True):
        part = rows.where(data=name)
        _level(axes, part.where(method="exact EM"), "score", "exact EM", "exact EM")
        single = part.where(method="one Gaussian, exact")
        _level(axes, single, "score", "one Gaussian, exact", "single")
        for method, (label, look) in shown.items():
            fitted = Rows(row for row in part.where(method=method) if "score" in row)
            line(axes, fitted, "epsilon", "score", label, look)
        _ticks(axes, (0.1, 0.5, 1.0, 4.0))
        best = float(np.median(part.where(method="exact EM").of("score")))
        gap = best - float(np.median(single.of("score")))
        axes.set(xlabel="epsilon at delta 1e-4", ylim=(best - 2.2 * gap, best + 0.35 * gap))
    for axes in found[::2]:
        axes.set_ylabel(_SCORE)
    legend(figure, found, 2 if len(found) > 1 else 1)
    return figure


def peers_picture(rows: Rows) -> Any:
    """NICV over that of scikit-learn, a panel for each data set."""
    names = [name for name, _ in rows.groups("data")]
    figure, found = panels(names, across=2, sharey=True)
    shown = {
        "privem": (["privem"], "privem"),
        "diffprivlib": (["diffprivlib"], "as printed"),
        "DPLloyd, best of 4": (list(LLOYD), "clipped"),
        "Park et al., better of 2": (list(PARK), "repaired"),
    }
    for axes, name in zip(found, names, strict=True):
        part = rows.where(data=name)
        exact = part.where(method="scikit-learn").of("nicv")[0]
        for label, (methods, look) in shown.items():
            scaled = [
                {**row, "over": row["nicv"] / exact}
                for epsilon, at in part.groups("epsilon")
                if epsilon is not None
                for row in _lowest(at, methods)
            ]
            if scaled:
                line(axes, Rows(scaled), "epsilon", "over", label, look)
        axes.axhline(1, color="black", linestyle=":", label="scikit-learn, not private")
        _ticks(axes, (0.01, 0.1, 1.0, 4.0))
        axes.set_xlabel("epsilon at delta 1e-4")
    for axes in found:
        logarithmic(axes)
    for axes in found[::2]:
        axes.set_ylabel("NICV over\nscikit-learn's")
    legend(figure, found, 2 if len(found) > 1 else 1)
    return figure


def _lowest(rows: Rows, methods: list[str]) -> Rows:
    """The rows of the method with the lowest median, in hindsight."""
    given = [found for found in (rows.where(method=m) for m in methods) if found]
    return min(given, key=lambda found: float(np.median(found.of("nicv"))), default=Rows())
