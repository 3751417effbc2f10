"""The pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from reproduction import Rows
from reproduction.pictures import BLACK, LOOKS, legend, line, logarithmic, panels

from privem import GaussianMixture

from . import attacks, fits

CURVES = [(2000, 6), (5600, 4), (9200, 3)]
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]
DIGIT = "half of the paper's last digit"
OF_CLIENTS = {2: "privem", 6: "clipped", 10: "repaired"}  # looks


@cache
def table() -> dict[tuple[int, int, int], list[float]]:
    """The paper's Table 1, by n, k and clients."""
    told = json.loads(Path(__file__).with_name("expected.json").read_text("utf-8"))
    rows = told["claims"]["table1"]["rows"]
    return {tuple(int(part[1:]) for part in name.split("_")): rows[name] for name in rows}


def table1(rows: Rows) -> Any:
    """Likelihood, iterations, and time: the paper's and ours."""
    both = Rows(row for row in rows if row["encrypted"])
    titles = ["log-likelihood", "iterations", "time, the paper's", "time, ours"]
    figure, (ends, counts, theirs, ours) = panels(titles)
    for clients, look in OF_CLIENTS.items():
        part, (colour, marker, _) = both.where(clients=clients), LOOKS[look]
        style = {"color": colour, "marker": marker, "linestyle": "", "alpha": 0.8}
        style["label"] = f"{clients} clients"
        gap = np.maximum(np.abs(part.of("ppem") - part.of("fem")), 1e-11)
        ends.plot(part.of("n"), gap, **style)
        counts.plot(part.of("fem iterations"), part.of("ppem iterations"), **style)
        ours.plot(part.of("n"), part.of("ppem seconds") / part.of("fem seconds"), **style)
        paper = [(n, row[5] / row[4]) for (n, _, c), row in table().items() if c == clients]
        theirs.plot(*zip(*paper, strict=True), **style)
    ends.axhline(5e-4, color=BLACK, linestyle=":", label=DIGIT)
    ends.set(yscale="log", ylim=(5e-12, 1e-2), ylabel="PPEM apart from FEM, nats")
    counts.plot([4, 600], [4, 600], color=BLACK, linestyle=":", zorder=0)
    counts.set(xscale="log", yscale="log", xlabel="of FEM", ylabel="of PPEM")
    for set_ticks in (counts.set_xticks, counts.set_yticks):
        set_ticks([5, 20, 100, 500], ["5", "20", "100", "500"])
    counts.minorticks_off()
    for axes in (ends, theirs, ours):
        axes.set(xlim=(0, 9600), xlabel="records")
        axes.set_xticks([200, 4700, 9200], ["200", "4,700", "9,200"])
    for axes in (theirs, ours):
        axes.set(yscale="log", ylim=(2, 600), ylabel="PPEM over FEM")
        axes.set_yticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])
        axes.minorticks_off()
    legend(figure, [ends], columns=2)
    return figure


def ellipses(axes: Any, row: dict[str, Any]) -> None:
    """Two standard deviations of each component."""
    circle = np.linspace(0, 2 * np.pi, 80)
    around = 2 * np.stack([np.cos(circle), np.sin(circle)])
    for mean, covariance in zip(row["means"], row["covariances"], strict=True):
        at = np.asarray(mean)[:, None] + np.linalg.cholesky(covariance) @ around
        axes.plot(*at, color=BLACK, linewidth=2)
        axes.plot(*mean, color=BLACK, marker="+", markersize=12, markeredgewidth=2.5)


def points(axes: Any, X: np.ndarray, row: dict[str, Any]) -> None:
    """Records, coloured by the component that most likely made them."""
    means, covariances = np.asarray(row["means"]), np.asarray(row["covariances"])
    k = len(means)
    weights = np.asarray(row.get("weights", np.full(k, 1 / k)))
    model = GaussianMixture(
        k,
        epsilon=None,
        max_iter=0,
        weights_init=weights / weights.sum(),
        means_init=means,
        precisions_init=np.linalg.inv(covariances),
    ).fit(X)
    labels = model.predict(X)
    for i, marker in zip(range(k), "o^sv", strict=False):
        mine = X[labels == i]
        axes.scatter(*mine.T, s=9, color=COLOURS[i], marker=marker, alpha=0.75, linewidths=0)
    ellipses(axes, row)


def fig1(rows: Rows) -> Any:
    """The fit, and how far the protocols are apart."""
    figure, (plane, gaps) = panels(["Parkinson's data, PPEM", "PPEM apart from"])
    points(plane, fits.parkinsons(), rows.where(start=0, clients=2)[0])
    plane.set(xlabel="first component, mostly Hz", ylabel="second component")
    strip(gaps, {"FEM": rows.of("apart"), "pooled EM": rows.of("from central")}, flat=False)
    gaps.set(yscale="log", ylim=(1e-12, 1e-6), ylabel="difference, s.d. of the data")
    return figure


def strip(axes: Any, groups: dict[str, np.ndarray], flat: bool = True) -> None:
    """Every repetition a dot, the median a line; names beside (flat) or below."""
    for i, values in enumerate(groups.values()):
        spots = i + np.linspace(-0.17, 0.17, len(values))
        middle = ([np.median(values)] * 2, [i - 0.3, i + 0.3])
        style = {"color": COLOURS[0], "marker": "o", "linestyle": "", "alpha": 0.6}
        axes.plot(*((values, spots) if flat else (spots, values)), **style)
        axes.plot(*(middle if flat else middle[::-1]), color=BLACK, linewidth=2.5)
    (axes.set_yticks if flat else axes.set_xticks)(range(len(groups)), list(groups))
    (axes.set_ylim if flat else axes.set_xlim)(-0.6, len(groups) - 0.4)
    if flat:
        axes.invert_yaxis()


def along(rows: Rows, name: str, last: int, value: Any = None) -> Rows:
    """A row for each iteration, the last value kept once EM has stopped."""
    found = Rows()
    for row in rows:
        values = row[name] if value is None else value(row)
        for i in range(last):
            found.append({"iteration": i + 1, "value": values[min(i, len(values) - 1)]})
    return found


def difference(row: dict[str, Any]) -> list[float]:
    """Between the log-likelihoods of the two protocols, in each iteration."""
    shared = min(len(row["fem"]), len(row["ppem"]))
    gap = np.abs(np.subtract(row["fem"][:shared], row["ppem"][:shared]))
    return list(np.maximum(gap * row.get("n", 1), 1e-11))


def fig2and6(rows: Rows) -> Any:
    """Both curves, and their difference."""
    figure, (course, gap) = panels(["log-likelihood", "PPEM apart from FEM"])
    last = max(len(row["ppem"]) for row in rows)
    line(course, along(rows, "fem", last), "iteration", "value", "FEM", "exact EM", zorder=3)
    line(course, along(rows, "ppem", last), "iteration", "value", "PPEM", "as printed", markevery=4)
    gaps = along(rows, "", last, difference)
    line(gap, gaps, "iteration", "value", "PPEM", "as printed", markevery=4)
    course.set(xlabel="iteration", ylabel="nats, all records")
    gap.axhline(5e-4, color=BLACK, linestyle=(0, (4, 2)), label=DIGIT)
    gap.set(yscale="log", ylim=(5e-12, 1e-2), xlabel="iteration", ylabel="nats, all records")
    legend(figure, [course, gap])
    return figure


def fig3to5(rows: Rows) -> Any:
    """The course of FEM and, for 2, 6 and 10 clients, of PPEM."""
    titles = [f"n = {n:,}, K = {k}" for n, k in CURVES]
    figure, (*three, gap) = panels([*titles, "PPEM apart from FEM"])
    rounds = max(len(row["ppem"]) for row in rows)
    for axes, (n, k) in zip(three, CURVES, strict=True):
        part = rows.where(n=n, k=k)
        ended = [dict(row, fem=[v - row["fem"][-1] for v in row["fem"]]) for row in part]
        line(axes, along(Rows(ended), "fem", 30), "iteration", "value", "FEM", "exact EM")
        for clients, of_clients in part.groups("clients"):
            less = [[v - row["fem"][-1] for v in row["ppem"]] for row in of_clients]
            middle = np.median([v + [v[-1]] * (rounds - len(v)) for v in less], axis=0)
            colour, marker, _ = LOOKS[OF_CLIENTS[clients]]
            size = {2: 12, 6: 8, 10: 4}[clients]
            style = {"color": colour, "marker": marker, "markersize": size, "linestyle": ""}
            style["label"] = f"PPEM, {clients} clients"
            axes.plot(range(1, rounds + 1), middle, **style)
        axes.set(xlabel="iteration", ylabel="nats per record, from the end")
    for clients, part in rows.groups("clients"):
        gaps = along(part, "", rounds, difference)
        line(gap, gaps, "iteration", "value", "", OF_CLIENTS[clients])
    gap.set(yscale="log", ylim=(5e-12, 1e-2), xlabel="iteration", ylabel="nats, all records")
    legend(figure, three, columns=2)
    return figure


def fig7and8(rows: Rows) -> Any:
    """The first draw of each."""
    cases = [(4700, 2, 2), (5700, 4, 10)]
    figure, both = panels([f"n = {n:,}, {c} clients" for n, _, c in cases])
    for axes, (n, k, clients) in zip(both, cases, strict=True):
        row = rows.where(n=n, k=k, clients=clients, draw=0)[0]
        axes.set_title(f"n = {n:,}, {clients} clients, {row['iterations']} iterations")
        X, truth = fits.clusters(n, k, 0)
        points(axes, X, row)
        axes.plot(*truth["means"].T, "D", color="white", markeredgecolor=BLACK, label="true centre")
        axes.plot([], [], color=BLACK, label="PPEM, two standard deviations")
        axes.set(xlabel="$x_1$", ylabel="$x_2$")
    legend(figure, both)
    return figure


def leak(rows: Rows) -> Any:
    """Records as they are and as they are read, and how well by whom."""
    figure, (plane, errors) = panels(["read by FEM's server", "error of each attack"])
    X = attacks.records()
    found = np.array(rows.where(cell="each_alone", start=0)[0]["found"])
    plane.scatter(*X.T, s=42, facecolors="none", edgecolors=COLOURS[0], label="record", zorder=3)
    plane.scatter(
        *found.T, s=26, marker="x", color=BLACK, linewidths=1, zorder=3, label="as recovered"
    )
    plane.set(xlabel="first component, s.d.", ylabel="second component, s.d.")
    plane.legend(loc="upper right", handletextpad=0.2)

    def of(**which: Any) -> np.ndarray:
        return np.maximum(rows.where(**which).of("error"), 1e-16)

    most = max(row.get("m", 0) for row in rows.where(attacker=attacks.ATTACKERS[1]))
    private = {"protocol": "masked", "epsilon": 1.0}
    groups = {
        "FEM: server": of(cell="each_alone"),
        "PPEM: server\n+ a client": of(cell="with_the_key"),
        f"PPEM: other\nclient, {most} records": of(attacker=attacks.ATTACKERS[1], m=most),
        "PPEM:\nlikelihoods": of(cell="by_likelihood", m=1),
        "exact model": of(protocol="ppem", epsilon=None),
        "private model": of(**private),
        "a mere guess": rows.where(**private).of("guess"),
    }
    strip(errors, groups)
    errors.axvline(attacks.FOUND, color=BLACK, linestyle=":")
    errors.set(xscale="log", xlim=(3e-17, 1e3), xlabel="error, s.d. of the data")
    errors.set_xticks([1e-15, 1e-10, 1e-5, 1])
    errors.tick_params(axis="y", labelsize=11)
    return figure


def cost(rows: Rows) -> Any:
    """Time over FEM's, and bytes, against clients."""
    figure, (time, size) = panels(["time", "communication"])
    methods = {"PPEM": "ppem", "privem, encrypted": "encrypted", "privem, masked": "masked"}
    looks = {"ppem": "as printed", "encrypted": "repaired", "masked": "privem", "fem": "exact EM"}
    plain = {(row["clients"], row["repetition"]): row["ms"] for row in rows.where(protocol="fem")}
    for label, name in methods.items():
        part = Rows(
            dict(row, ratio=row["ms"] / plain[row["clients"], row["repetition"]])
            for row in rows.where(protocol=name)
        )
        line(time, part, "clients", "ratio", label, looks[name])
    paper = Rows({"clients": c, "ratio": row[5] / row[4]} for (_, _, c), row in table().items())
    line(time, paper, "clients", "ratio", "the paper's Table 1", "single")
    for label, name in {**methods, "FEM": "fem"}.items():
        part = Rows(dict(row, kB=row["bytes"] / 1e3) for row in rows.where(protocol=name))
        line(size, part, "clients", "kB", label, looks[name])
    time.axhline(1, color=LOOKS["exact EM"][0], linestyle=":")
    time.set(yscale="log", xlabel="clients", ylabel="CPU time over FEM's")
    size.set(yscale="log", xlabel="clients", ylabel="kB per client\nand iteration")
    for axes in (time, size):
        logarithmic(axes)
        axes.set_xticks([2, 6, 10])
    legend(figure, [time, size], columns=2)
    return figure


def ours(rows: Rows) -> Any:
    """What privacy costs, against records and epsilon."""
    figure, (records, budget) = panels(["epsilon = 1", "n = 9,200"])
    lines: Sequence[tuple[str, str, dict[str, Any]]] = [
        ("FEM and PPEM", "as printed", {"method": "fem"}),
        ("privem, exact", "exact EM", {"method": "masked", "epsilon": None}),
        ("privem, 10 clients", "privem", {"method": "masked", "epsilon": 1.0}),
        ("privem, pooled", "repaired", {"method": "central", "epsilon": 1.0}),
        ("one client alone", "single", {"method": "alone"}),
    ]
    for label, look, which in lines:
        line(records, rows.where(**which), "n", "excess", label, look)
    n = max(row["n"] for row in rows.where(method="masked"))
    for label, look, which in (lines[0], lines[1], lines[4]):
        level = np.median(rows.where(n=n, **which).of("excess"))
        budget.axhline(level, color=LOOKS[look][0], linestyle=LOOKS[look][2], label=label)
    private = Rows(row for row in rows.where(method="masked", n=n) if row.get("epsilon"))
    line(budget, private, "epsilon", "excess", "privem, 10 clients", "privem")
    records.set(xscale="log", yscale="log", xlabel="records")
    records.set_xticks([200, 1000, 9200], ["200", "1,000", "9,200"])
    records.minorticks_off()
    budget.set(xscale="log", yscale="log", xlabel="epsilon")
    budget.set_xticks([0.3, 1, 3], ["0.3", "1", "3"])
    budget.minorticks_off()
    for axes in (records, budget):
        logarithmic(axes)
        axes.set_ylabel("nats below the truth")
    legend(figure, [records], columns=2)
    return figure
