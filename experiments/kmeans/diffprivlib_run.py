"""diffprivlib's k-means: reads jobs, writes centres. Runs in an environment of its own.

    python diffprivlib_run.py DATA.npy JOBS.json OUT.json

A job is ``{"clusters": K, "epsilon": nominal, "seed": s}``; the data lie in [-1, 1]^d. Needs
diffprivlib and a scikit-learn old enough for it; nothing of privem.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import KMeans


def main(data: str, jobs: str, out: str) -> None:
    """Fit every job."""
    warnings.simplefilter("ignore")
    X = np.load(data)
    bounds = (np.full(X.shape[1], -1.0), np.full(X.shape[1], 1.0))
    found = []
    for job in json.loads(Path(jobs).read_text()):
        model = KMeans(
            job["clusters"], epsilon=job["epsilon"], bounds=bounds, random_state=job["seed"]
        ).fit(X)
        found.append(model.cluster_centers_.tolist())
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
