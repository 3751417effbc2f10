"""Figures of one fit of TableMixture, and those that are kept of its rivals."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from columns import Columns, frame_of, from_grid, on_grid, schema_of, values_of
from metrics import density, distances, usefulness
from others import read
from rivals import DELTA, kept

from privem import TableMixture

SHOWN = ("pairs", "grid", "worst", "trees", "linear", "density", "gain", "least", "cpu")
FORMS = dict.fromkeys(SHOWN, "{:8.4f}") | {"density": "{:8.3f}", "gain": "{:8.3f}"}
FORMS |= {"least": "{:8.3f}", "cpu": "{:8.1f}"}


def once(
    table: str,
    epsilon: float,
    with_target: bool,
    seed: int,
    *,
    rows: int | None = None,
    missing: float = 0.0,
    quick: bool = False,
    grid: bool = False,
) -> dict[str, float]:
    """The figures of one fit: to some rows, with cells made missing, or to the grid's cells."""
    columns, train, test, target = read(table)
    rng, given = np.random.default_rng(seed), train
    if rows is not None:
        given = train[rng.permutation(len(train))[:rows]]
    if missing:
        # All but the target may be missing, at random; the synthetic rows are complete.
        columns = [replace(c, missing=j != target) for j, c in enumerate(columns)]
        lost = rng.random(given.shape) < missing
        lost[:, target] = False
        given = np.where(lost, np.nan, given)
    fitted = columns
    if grid:
        fitted = [column.as_cells for column in columns]
        given = np.where(np.isnan(given), np.nan, on_grid(columns, given))
    schema, frame = schema_of(fitted), frame_of(fitted, given)
    began = time.process_time()
    named = columns[target].name if with_target else None
    model = TableMixture(schema=schema, target=named, epsilon=epsilon, delta=DELTA).fit(frame)
    drawn = model.sample_frame(len(train), missing=not missing)
    found: dict[str, Any] = {"cpu": time.process_time() - began}
    synthetic = values_of(fitted, drawn)
    if grid:
        synthetic = from_grid(columns, on_grid(fitted, synthetic), rng)
    near = distances(columns, train, synthetic)
    found |= {"pairs": near["pairs"], "grid": near["on_grid"], "worst": near["worst"]}
    if not quick:
        found |= usefulness(columns, synthetic, test, target)
    if not missing and not grid:
        alone = TableMixture(schema=schema, n_components=1, epsilon=epsilon, delta=DELTA).fit(frame)
        found["density"] = held_out(table, columns, model, test)
        found["gain"] = found["density"] - held_out(table, columns, alone, test)
    return found


def held_out(table: str, columns: Columns, model: TableMixture, test: np.ndarray) -> float:
    if table == "adult":
        return density(columns, model, test)
    return float(np.mean(model.score_samples(frame_of(columns, test))))


def mean(found: list[dict[str, float]]) -> dict[str, float]:
    """Over runs; and the least gain."""
    means = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    return means | ({"least": min(each["gain"] for each in found)} if "gain" in means else {})


def rival(table: str, name: str, epsilon: float) -> tuple[dict[str, float], int]:
    """Mean figures of what is kept of a rival, and how many runs that is."""
    where = {"table": table, "rival": name, "epsilon": epsilon}
    runs = [each for each in kept() if where.items() <= each.items()]
    keys = ("pairs", "on_grid", "worst", "trees", "linear", "cpu", "memory")
    found = [{k: float(each[k]) for k in keys} for each in runs]
    if not found:
        return {}, 0
    means = mean(found)
    return means | {"grid": means["on_grid"]}, len(found)


def head() -> None:
    print(f"{'':<42}", *(f"{key:>8}" for key in SHOWN), flush=True)


def line(label: str, figures: dict[str, float]) -> None:
    shown = [FORMS[k].format(figures[k]) if k in figures else f"{'-':>8}" for k in SHOWN]
    print(f"{label:<42}", *shown, flush=True)
