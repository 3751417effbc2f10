"""diffprivlib's k-means on the data of park2017-peers; what it finds is kept in diffprivlib.json.

    python3.11 -m venv /tmp/dpl && /tmp/dpl/bin/pip install diffprivlib==0.6.6 scikit-learn==1.5.2
    .venv/bin/python experiments/park2017/diffprivlib_run.py jobs /tmp/jobs
    /tmp/dpl/bin/python experiments/park2017/diffprivlib_run.py fit /tmp/jobs
    .venv/bin/python experiments/park2017/diffprivlib_run.py keep /tmp/jobs

The first and the last step need privem, the second needs diffprivlib and a scikit-learn old enough
for it. The data lie in [-1, 1]^d, which are the bounds it is given; it is asked for the epsilon at
which it spends at least that of the row (diffprivlib_price.py).
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np

EPSILONS = (0.01, 0.1, 1.0, 4.0)
KEPT = Path(__file__).with_name("diffprivlib.json")


def jobs(folder: Path) -> None:
    """Write data and what to fit."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from park2017.data import CLUSTERED, clustered
    from park2017.diffprivlib_price import nominal_for

    folder.mkdir(exist_ok=True)
    wanted = []
    for name in CLUSTERED:
        X, k = clustered(name)
        np.save(folder / f"{name}.npy", X)
        for epsilon in EPSILONS:
            nominal = nominal_for(epsilon, *X.shape, k, 1e-4)
            wanted.append({"data": name, "clusters": k, "epsilon": epsilon, "nominal": nominal})
    (folder / "jobs.json").write_text(json.dumps(wanted))


def fit(folder: Path) -> None:
    """Fit every job, ten times, and measure it."""
    from diffprivlib.models import KMeans

    warnings.simplefilter("ignore")
    for job in json.loads((folder / "jobs.json").read_text()):
        path = folder / f"{job['data']} {job['epsilon']:g}.json"
        if path.exists():
            continue
        X = np.load(folder / f"{job['data']}.npy")
        bounds = (np.full(X.shape[1], -1.0), np.full(X.shape[1], 1.0))
        found = []
        for seed in range(10):
            model = KMeans(
                job["clusters"], epsilon=job["nominal"], bounds=bounds, random_state=seed
            )
            found.append(_nicv(X, model.fit(X).cluster_centers_))
        path.write_text(json.dumps(job | {"found": found}))
        print(job["data"], job["epsilon"], np.median(found), flush=True)


def _nicv(X: np.ndarray, centres: np.ndarray) -> float:
    total = 0.0
    for block in np.array_split(X, max(1, len(X) // 4096)):
        away = block[:, None] - centres[None]
        total += float(np.einsum("nkj,nkj->nk", away, away).min(axis=1).sum())
    return total / len(X)


def keep(folder: Path) -> None:
    """Collect what was found."""
    found: dict[str, dict[str, list[float]]] = {}
    nominal: dict[str, dict[str, float]] = {}
    for job in json.loads((folder / "jobs.json").read_text()):
        path = folder / f"{job['data']} {job['epsilon']:g}.json"
        if not path.exists():
            continue
        values = json.loads(path.read_text())["found"]
        key = f"{job['epsilon']:g}"
        found.setdefault(job["data"], {})[key] = [round(value, 6) for value in values]
        nominal.setdefault(job["data"], {})[key] = round(job["nominal"], 5)
    about = "diffprivlib 0.6.6, scikit-learn 1.5.2: NICV by data and epsilon spent, seeds 0 to 9"
    told = {"about": about, "nominal": nominal, "found": found}
    KEPT.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    {"jobs": jobs, "fit": fit, "keep": keep}[sys.argv[1]](Path(sys.argv[2]))
