"""MST and AIM of ``dpmm`` 0.1.9 on the shared grid, each in a process of its own; results are kept.

    python experiments/tables/rivals.py --python rivals-venv/bin/python

``dpmm`` pins old versions, so it needs an environment of its own (README). Codes of the grid go
there in a file, and drawn codes come back; figures are computed here, with the code that computes
ours. What ``rivals.json`` has is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

KEPT = Path(__file__).with_name("rivals.json")
DELTA = 1e-6
# "aim" is what the issue compares with. It takes 240 rounds at most (the default for 15 columns),
# 50 iterations in each, models of at most 1 MB, and 1,500 iterations at the end. "aim-default"
# has 1,000 iterations throughout, and 80 MB, as AIM's documentation says.
RIVALS: dict[str, dict[str, Any]] = {
    "mst": {"model": "MST"},
    "aim": {"model": "AIM", "size": 1.0, "each": 50, "final": 1500},
    "aim-default": {"model": "AIM", "size": 80.0, "each": 1000, "final": 1000},
}


def plan() -> Iterator[tuple[str, str, float, int]]:
    """Table, rival, epsilon and seed, in the order in which they are wanted."""
    from others import FRESH

    yield from (("adult", "aim", 1.0, seed) for seed in range(5))
    yield from ((table, "aim", 1.0, 0) for table in FRESH)
    for seed in range(5):
        yield from (("adult", "aim", epsilon, seed) for epsilon in (4.0, 0.5))
        yield "adult", "mst", 1.0, seed
    yield from ((table, "mst", 1.0, 0) for table in FRESH)
    yield "adult", "aim-default", 1.0, 0
    yield from ((table, "aim", 1.0, 1) for table in FRESH)
    yield from (("adult", "mst", epsilon, seed) for seed in range(5) for epsilon in (4.0, 0.5))


def kept() -> list[dict[str, Any]]:
    """All results there are."""
    return json.loads(KEPT.read_text())["results"] if KEPT.exists() else []


def keep(result: dict[str, Any]) -> None:
    rows = ",\n  ".join(json.dumps(each) for each in [*kept(), result])
    said = {
        "command": "python experiments/tables/rivals.py --python rivals-venv/bin/python",
        "versions": "dpmm 0.1.9, numpy 1.26.4, pandas 2.1.0, scipy 1.17.1, Python 3.11",
        "delta": DELTA,
        "rivals": RIVALS,
    }
    head = json.dumps(said, indent=1)[:-2]
    KEPT.write_text(f'{head},\n "results": [\n  {rows}\n ]\n}}\n')


def peak_memory() -> float:
    """Of this whole process, in MB; getrusage may tell that of the parent instead."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def draw(given: str, drawn: str, told: str) -> None:
    """In the rivals' environment: fit to codes, and draw as many rows."""
    import time
    import warnings

    warnings.simplefilter("ignore")
    import dpmm.models.base.mechanisms.mechanism as last
    import pandas as pd
    from dpmm import pipelines

    options = json.loads(told)
    with np.load(given) as file:
        codes, sizes = file["codes"], file["sizes"]
    names = [f"c{j}" for j in range(codes.shape[1])]
    frame = pd.DataFrame(codes, columns=names)
    gen = {}
    if "final" in options:
        gen["n_iters"], inference = options["each"], last.FactoredInference

        def final(domain: Any, iters: int, prng: Any) -> Any:
            return inference(domain=domain, iters=options["final"], prng=prng)

        last.FactoredInference = final
    began = time.process_time()
    made = getattr(pipelines, options["model"] + "Pipeline")(
        epsilon=options["epsilon"],
        delta=DELTA,
        n_jobs=1,
        max_model_size=options.get("size"),
        disable_processing=True,
        gen_kwargs=gen,
    )
    domain = dict(zip(names, map(int, sizes), strict=True))
    made.fit(frame, domain, random_state=options["seed"])
    rows = made.generate(len(frame), random_state=options["seed"])[names].to_numpy()
    spent = time.process_time() - began
    np.savez(drawn, codes=rows, cpu=spent, memory=peak_memory())


def run(
    python: str, table: str, rival: str, epsilon: float, seed: int, limit: float
) -> dict[str, Any] | None:
    """The figures of one rival; nothing if it took too long."""
    from columns import from_grid, on_grid
    from metrics import distances, usefulness
    from others import read

    columns, train, test, target = read(table)
    options = RIVALS[rival] | {"epsilon": epsilon, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        given, drawn = Path(folder, "given.npz"), Path(folder, "drawn.npz")
        sizes = [c.grid_cells for c in columns]
        np.savez(given, codes=on_grid(columns, train), sizes=sizes)
        call = [python, __file__, "--draw", str(given), str(drawn), json.dumps(options)]
        around = {f"{each}_NUM_THREADS": "1" for each in ("OMP", "MKL", "OPENBLAS")}
        around |= {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and k not in around}
        try:
            subprocess.run(call, check=True, env=around, timeout=limit)
        except subprocess.TimeoutExpired:
            print(f"{table} {rival} {epsilon:g} {seed}: not done in {limit:g} s", flush=True)
            return None
        with np.load(drawn) as file:
            codes, cpu, memory = file["codes"], float(file["cpu"]), float(file["memory"])
    rows = from_grid(columns, codes, np.random.default_rng(seed))
    found = distances(columns, train, rows) | usefulness(columns, rows, test, target)
    found |= {"cpu": round(cpu, 1), "memory": round(memory)}
    rounded = {k: round(v, 5) if isinstance(v, float) else v for k, v in found.items()}
    return {"table": table, "rival": rival, "epsilon": epsilon, "seed": seed, **rounded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="of the environment that has dpmm")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--only", nargs="+", default=list(RIVALS), choices=list(RIVALS))
    parser.add_argument("--draw", nargs=3, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.draw:
        draw(*told.draw)
        return
    if told.python is None:
        sys.exit("--python: the Python of the environment that has dpmm")
    for each in plan():
        have = {(r["table"], r["rival"], r["epsilon"], r["seed"]) for r in kept()}
        if each in have or each[1] not in told.only:
            continue
        result = run(told.python, *each, told.limit)
        if result is not None:
            keep(result)
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
