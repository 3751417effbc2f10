"""The pictures of Park et al. 2016."""

from __future__ import annotations

from typing import Any

import numpy as np
from reproduction import Rows
from reproduction.pictures import LOOKS, legend, line, logarithmic, panels

from .leaks import ALONE, people
from .mixtures import NOMINAL, SPENT

_SCORE = "log-likelihood\n(nats per record)"


def _ticks(axes: Any, values: tuple[float, ...]) -> None:
    """Plain numbers on a logarithmic axis."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.minorticks_off()


def fig1_picture(rows: Rows) -> Any:
    """Means, with circles of two deviations, of the first repetition."""
    shown = (("exact EM", 1), ("as printed", 1), ("privem", 1), ("privem", 50))
    figure, found = panels([f"{m}, n = {104 * t:,}" for m, t in shown])
    for axes, (method, times) in zip(found, shown, strict=True):
        X = people(times, True, seed=0)
        axes.plot(X[:, 1], X[:, 0], ".", color="#b5b5b5", markersize=3, label="people")
        colour, marker, _ = LOOKS[method]
        row = rows.where(times=times, alone=True, method=method, repetition=0)[0]
        for mean, deviation in zip(row["means"], row["deviations"], strict=True):
            turn = np.linspace(0, 2 * np.pi, 60)
            axes.plot(
                mean[1] + 2 * deviation * np.cos(turn),
                mean[0] + 2 * deviation * np.sin(turn),
                color=colour,
                linewidth=1.2,
            )
        at = np.array(row["means"])
        axes.plot(
            at[:, 1],
            at[:, 0],
            marker or "+",
            color=colour,
            linestyle="",
            markersize=9,
            markeredgewidth=2,
            label=f"means, {method}",
        )
        axes.plot(
            ALONE[1],
            ALONE[0],
            "*",
            color="black",
            markersize=15,
            markerfacecolor="none",
            label="the one person",
        )
        axes.set(xlim=(4.5, 12), ylim=(46, 53.5))
    for axes in found[2:]:
        axes.set_xlabel("longitude (degrees)")
    for axes in found[::2]:
        axes.set_ylabel("latitude (degrees)")
    legend(figure, found)
    return figure


def fig2_picture(rows: Rows) -> Any:
    figure, (left, right) = panels(
        [f"printed: CDP spends {SPENT:.1f}", f"repaired: all spend {NOMINAL:g}"], sharey=True
    )
    looks = {"CDP as printed": "as printed", "advanced as printed": "other"}
    for axes, methods in (
        (left, looks),
        (right, {"CDP repaired": "repaired", "advanced repaired": "another", "privem": "privem"}),
    ):
        for method, look in ({"exact EM": "exact EM"} | methods).items():
            line(axes, rows.where(method=method), "n", "score", method, look)
        _ticks(axes, (1000, 10_000, 100_000))
        axes.set(ylim=(-1.6, 0.5), xlabel="records")
    left.set_ylabel(_SCORE)
    legend(figure, [left, right], 2)
    return figure


def fig3_picture(rows: Rows) -> Any:
    figure, (left, right) = panels(["printed, by nominal budget", "by epsilon spent"], sharey=True)
    printed_looks = {
        "CDPlap as printed": "as printed",
        "CDPgau as printed": "other",
        "DPLloyd as printed": "another",
    }
    spent_looks = {
        "CDPlap": "repaired",
        "CDPgau": "clipped",
        "DPLloyd linear": "single",
        "privem": "privem",
    }
    for method, look in ({"exact": "exact EM"} | printed_looks).items():
        line(left, rows.where(method=method), "nominal", "nicv", method, look)
    line(right, rows.where(method="exact"), "spent", "nicv", "exact", "exact EM")
    for method, look in spent_looks.items():
        line(right, rows.where(method=f"{method}, spent"), "spent", "nicv", method, look)
    logarithmic(left)
    _ticks(left, (0.01, 0.1, 1.0))
    _ticks(right, (0.5, 1.0, 2.0, 5.0))
    left.set(xlabel="the paper's budget", ylabel="NICV (box [-1, 1]²)")
    right.set(xlabel="epsilon at delta 1e-4")
    legend(figure, [left, right], 3)
    return figure


def fig4_picture(rows: Rows) -> Any:
    figure, (left, right) = panels(["printed, by nominal budget", "by epsilon spent"], sharey=True)
    for axes in (left, right):
        for method, label, look in (
            ("exact EM", "exact EM", "exact EM"),
            ("single Gaussian", "one Gaussian, exact", "single"),
        ):
            found = rows.where(method=method)
            ends = [{**row, "at": row[x]} for row in found for x in ("nominal", "spent")]
            line(axes, Rows(ends), "at", "score", label, look, markersize=0)
    line(
        left,
        rows.where(method="CDP as printed"),
        "nominal",
        "score",
        "CDP as printed",
        "as printed",
    )
    line(
        left,
        rows.where(method="advanced as printed"),
        "nominal",
        "score",
        "advanced as printed",
        "other",
    )
    # Both sets of fits: at the nominal epsilon, and at what CDP spends.
    for look, method in (("repaired", "CDP repaired"), ("privem", "privem")):
        both = [{**row, "at": row["nominal"]} for row in rows.where(method=method)]
        both += [{**row, "at": row["spent"]} for row in rows.where(method=f"{method}, spent")]
        line(right, Rows(both), "at", "score", method, look)
    line(
        right,
        rows.where(method="advanced repaired"),
        "nominal",
        "score",
        "advanced repaired",
        "another",
    )
    left.set_ylim(2, 9.5)
    _ticks(left, (0.03, 0.1, 0.3, 1.0, 3.0))
    left.set_xlim(0.025, 3.6)
    _ticks(right, (0.03, 0.1, 0.3, 1.0, 3.0, 10.0))
    left.set(xlabel="the paper's budget", ylabel=_SCORE)
    right.set(xlabel="epsilon at delta 1e-4")
    legend(figure, [left, right], 3)
    return figure


def noise_picture(rows: Rows) -> Any:
    figure, (axes,) = panels(["what the neighbour could not give"])
    x = np.geomspace(0.01, 1, 50)
    axes.plot(
        x, -np.expm1(-x), color=LOOKS["exact EM"][0], linestyle=":", label="1 - exp(-epsilon')"
    )
    line(axes, rows.where(kind="Gamma"), "share", "delta", "Gamma, d = 2", "as printed")
    line(axes, rows.where(kind="Wishart"), "share", "delta", "Wishart, d = 10", "other")
    axes.axhline(1e-4, color=LOOKS["single"][0], label="a delta of 1e-4")
    axes.set(
        xscale="log", yscale="log", xlabel="epsilon' of one release", ylabel="delta at any epsilon"
    )
    legend(figure, [axes], 1)
    return figure
