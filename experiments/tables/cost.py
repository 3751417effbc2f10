"""One private fit and as many synthetic rows, in a process of its own, and what it took.

    python experiments/tables/cost.py table.parquet schema.toml target epsilon rows

Prints CPU seconds, wall seconds and peak memory in MB of the whole process, imports and all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from rivals import peak_memory

from privem import Schema, TableMixture


def main() -> None:
    began = time.perf_counter()
    table, schema, target, epsilon, rows = sys.argv[1:]
    model = TableMixture(schema=schema, target=target or None, epsilon=float(epsilon))
    model.fit(table).sample_frame(int(rows))
    wall = time.perf_counter() - began
    print(json.dumps({"cpu": time.process_time(), "wall": wall, "memory": peak_memory()}))


def cost(
    table: Path, schema: Schema, target: str | None, epsilon: float, rows: int
) -> dict[str, float]:
    """Of a fit to a file."""
    with tempfile.TemporaryDirectory() as folder:
        schema.write(Path(folder, "schema.toml"))
        call = [sys.executable, __file__, str(table), str(Path(folder, "schema.toml"))]
        call += [target or "", str(epsilon), str(rows)]
        around = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(call, check=True, env=around, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def repeated(frame: pl.DataFrame, rows: int, folder: Path) -> Path:
    """A Parquet file with these rows again and again."""
    frame.write_parquet(folder / "once.parquet")
    once = pl.scan_parquet(folder / "once.parquet")
    path = folder / f"{rows}.parquet"
    pl.concat([once] * -(-rows // len(frame))).head(rows).sink_parquet(path)
    return path


def wide(rows: int, columns: int, seed: int = 0) -> tuple[Schema, pl.DataFrame]:
    """Numbers and categories in turn, which depend on each other through ten hidden kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(10, size=rows)
    declared: dict[str, object] = {}
    made = {}
    for j in range(columns):
        if j % 2:
            declared[f"c{j}"] = list("abcde")
            law = rng.dirichlet(np.full(5, 0.5), 10).cumsum(axis=1)
            code = (rng.random(rows)[:, None] > law[kind]).sum(axis=1).clip(0, 4)
            made[f"c{j}"] = np.array(list("abcde"))[code]
        else:
            declared[f"c{j}"] = (-10.0, 10.0)
            made[f"c{j}"] = rng.normal(2 * rng.standard_normal(10)[kind], 1.0).clip(-10, 10)
    return Schema(declared), pl.DataFrame(made)


if __name__ == "__main__":
    main()
