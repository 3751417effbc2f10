"""Synthetic tables of TableMixture: how near, how useful, and beside MST and AIM.

    python experiments/tables/run.py [--epsilon 0.5 1 4] [--seeds 5] [--rows 3000] [--missing 0.2]
    python experiments/tables/run.py --tables survey crashes customers --seeds 2 --epsilon 1
    python experiments/tables/run.py --check           # what was asked for, and exit 1 if it fails
    python experiments/tables/run.py --scale --wide    # ten million rows, a hundred columns

Everything goes through ``TableMixture`` as anybody would use it. Its noise has no seed: runs
differ. Columns of figures:

- *pairs*, *worst*: total variation between real and synthetic tables of two columns, numbers cut
  at twentieths of the real rows; *grid*: the mean where the rivals' grid cuts them;
- *trees*, *linear*: AUC on held-out real rows of classifiers trained on synthetic ones;
- *density*: log-likelihood of these rows (Adult: on the grid, else on the schema's cells), *gain*
  what that is above private independent columns (``n_components=1``, with all of the budget), and
  *least* the smallest gain of any single fit.

Figures about real rows are NOT private; the tables are public.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from check import check
from columns import frame_of, schema_of
from cost import cost, repeated, wide
from figures import head, line, mean, once, rival
from metrics import usefulness
from others import read

from privem import TableMixture


def compare(told: argparse.Namespace) -> None:
    for table in told.tables:
        columns, train, test, target = read(table)
        print(
            f"\n{table}: {len(train)} rows, {len(columns)} columns, target {columns[target].name}"
        )
        head()
        if not told.quick:
            line("real rows", usefulness(columns, train, test, target))
        more = {"rows": told.rows, "missing": told.missing, "quick": told.quick}
        for epsilon in told.epsilon:
            for said, with_target, grid in (
                ("ours", False, False),
                ("ours, with target", True, False),
                ("ours, on the grid", False, True),
            ):
                runs = [
                    once(table, epsilon, with_target, seed, grid=grid, **more)
                    for seed in range(told.seeds)
                ]
                line(f"epsilon {epsilon:g}: {said} ({len(runs)})", mean(runs))
            for name in ("mst", "aim", "aim-default"):
                found, runs_kept = rival(table, name, epsilon)
                if runs_kept:
                    line(f"epsilon {epsilon:g}: {name} ({runs_kept})", found)


def scale() -> None:
    """Files of one, ten and twenty million rows."""
    columns, train, _, target = read("adult")
    for rows in (1_000_000, 10_000_000, 20_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = repeated(frame_of(columns, train), rows, Path(folder))
            took = cost(path, schema_of(columns), columns[target].name, 1.0, 10_000)
            size = path.stat().st_size / 1e6
        print(f"{rows:,} rows ({size:.0f} MB of Parquet):", _said(took), flush=True)


def many_columns(rows: int = 30_000) -> None:
    """A hundred columns, half of them numbers."""
    schema, frame = wide(2 * rows, 100)
    train, test = frame.head(rows), frame.tail(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wide.parquet")
        train.write_parquet(path)
        for target in (None, "c1"):
            print(f"100 columns, target {target}:", _said(cost(path, schema, target, 1.0, rows)))
    for epsilon in (1.0, 4.0):
        both = [TableMixture(schema=schema, n_components=k, epsilon=epsilon) for k in ("auto", 1)]
        ours, alone = (float(np.mean(model.fit(train).score_samples(test))) for model in both)
        print(f"epsilon {epsilon:g}: density {ours:.2f}, independent columns {alone:.2f}")


def _said(took: dict[str, float]) -> str:
    return f"{took['cpu']:.1f} CPU s, {took['wall']:.1f} s, {took['memory']:.0f} MB at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["adult"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=5, help="how many runs")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="no classifiers")
    parser.add_argument("--missing", type=float, default=0.0, help="share of cells made missing")
    parser.add_argument("--ours", type=Path, help="with --check: keeps our figures, or has them")
    for each in ("check", "scale", "wide"):
        parser.add_argument(f"--{each}", action="store_true")
    told = parser.parse_args()
    fine = check(told.seeds, told.ours) if told.check else True
    if told.scale:
        scale()
    if told.wide:
        many_columns()
    if not (told.check or told.scale or told.wide):
        compare(told)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
