"""Table 1 of Abu Hussein and Rodel 2023: encrypted, plain federated and central EM.

    python experiments/federation/run.py [--n 200 2000 ...] [--k 2 4 ...] [--parties 2 6 10]
                                         [--paper] [--json FILE]

The paper draws random clusters of n points in two dimensions, fits K components over 2, 6 and 10
clients from random means, unit covariances and equal weights, for at most 500 iterations, and
prints log-likelihood and iterations of federated EM in the clear (FEM) and encrypted (PPEM). Its
data are not available, so its numbers cannot be compared, only its claim: that the two agree to
three decimals and in the number of iterations. ``--paper`` also runs the paper's own protocol
(``protection="ckks"``: three vectors, new keys in every iteration) and shows what an iteration
costs, in CPU seconds of all parties together.
``--json`` names a file that is written after every row; rows that it has are not run again.

Then Parkinson's data (from PRIVEM_DATA, default ../shared/data), reduced to two components.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from privem import GaussianMixture
from privem.federation import Federation, Party

DATA = Path(os.environ.get("PRIVEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
SIZES, COMPONENTS, PARTIES = tuple(range(200, 9201, 900)), (2, 3, 4, 5, 6), (2, 6, 10)
TOLERANCE = 1e-7  # of the mean log-likelihood: tighter than the paper's unstated one


def clusters(n: int, k: int) -> np.ndarray:
    """Random clusters."""
    rng = np.random.default_rng(1000 * k + n)
    centres = rng.uniform(-10, 10, (k, 2))
    rows = [rng.normal(c, rng.uniform(0.5, 2.5, 2), (n // k + 1, 2)) for c in centres]
    return np.vstack(rows)[:n]


def parkinsons() -> np.ndarray:
    """195 recordings, 22 features, two principal components."""
    table = np.genfromtxt(DATA / "parkinsons.data", delimiter=",", skip_header=1)
    # Column 0 is a name, column 17 the diagnosis.
    return np.asarray(PCA(2).fit_transform(np.delete(table, [0, 17], axis=1)))


def estimator(X: np.ndarray, k: int, iterations: int) -> GaussianMixture:
    """The paper's start: random means, unit covariances (of standardised size), equal weights."""
    rng = np.random.default_rng(k)
    spread = X.std(axis=0)
    return GaussianMixture(
        k,
        epsilon=None,
        max_iter=iterations,
        tol=TOLERANCE,
        weights_init=np.full(k, 1 / k),
        means_init=X.mean(axis=0) + rng.uniform(-2, 2, (k, 2)) * spread,
        precisions_init=np.stack([np.diag(1 / spread**2)] * k),
    )


def compare(X: np.ndarray, k: int, parties: int, iterations: int, paper: bool) -> dict[str, float]:
    """Central, plain and encrypted; log-likelihoods, iterations, CPU seconds per round."""

    def run(data: object, limit: int = iterations) -> tuple[float, int, float]:
        began = time.process_time()
        model = estimator(X, k, limit).fit(data)
        seconds = time.process_time() - began
        # Two rounds for the frame.
        return float(model.lower_bound_) * len(X), model.n_iter_, seconds / (model.n_iter_ + 2)

    def federation(**terms: object) -> Federation:
        members = [Party(X[i::parties], f"client {i}") for i in range(parties)]
        return Federation(members, minimum=2, **terms)  # type: ignore[arg-type]

    found: dict[str, float] = {}
    names = {"central": X, "fem": federation(protection="plain")}
    names["encrypted"] = federation(protection="encrypted")
    for name, data in names.items():
        found[f"{name} ll"], found[f"{name} iterations"], found[f"{name} s"] = run(data)
    if paper:
        few = run(federation(protection="ckks"), 3)
        found["paper s"] = few[2]
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="*", default=SIZES)
    parser.add_argument("--k", type=int, nargs="*", default=COMPONENTS)
    parser.add_argument("--parties", type=int, nargs="*", default=PARTIES)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Not converging within the limit is part of the table.
    kept = Kept(options.json, options.iterations)
    points = [(f"n{n}_k{k}", clusters(n, k), k) for n in options.n for k in options.k]
    if (DATA / "parkinsons.data").exists():
        points += [(f"parkinsons_k{k}", parkinsons(), k) for k in (2, 3)]
    for name, X, k in points:
        for parties in options.parties:
            row = kept.rows.get(f"{name}_c{parties}")
            if row is None or (options.paper and "paper s" not in row):
                row = compare(X, k, parties, options.iterations, options.paper)
                kept.add(f"{name}_c{parties}", row)
            line = f"{name + f'_c{parties}':<20}"
            for word in ("central", "fem", "encrypted"):
                line += f" {row[f'{word} ll']:12.3f} {row[f'{word} iterations']:4.0f}"
            line += f"   encrypted {1e3 * row['encrypted s']:.0f} ms"
            if options.paper:
                line += f", ckks {1e3 * row['paper s']:.0f} ms a round"
            print(line, flush=True)
    kept.summary()


class Kept:
    """Rows done, in a file if one is named."""

    def __init__(self, path: str | None, iterations: int) -> None:
        self.path, self.iterations = Path(path) if path else None, iterations
        self.rows: dict[str, dict[str, float]] = {}
        if self.path is not None and self.path.exists():
            content = json.loads(self.path.read_text())
            if content["iterations"] != iterations:
                raise SystemExit(f"{path} is of fits with other --iterations")
            self.rows = content["rows"]

    def add(self, name: str, row: dict[str, float]) -> None:
        """Keep a row; whoever kills the run loses the one that is under way."""
        self.rows[name] = row
        if self.path is not None:
            content = {"iterations": self.iterations, "rows": dict(sorted(self.rows.items()))}
            beside = self.path.with_suffix(".part")
            beside.write_text(json.dumps(content, indent=1))
            beside.replace(self.path)

    def summary(self) -> None:
        """How far encrypted and federated fits are from central ones, over all rows kept."""
        grid = sum(not name.startswith("parkinsons") for name in self.rows)
        whole = len(SIZES) * len(COMPONENTS) * len(PARTIES)
        print(f"rows done: {grid} of {whole}, and {len(self.rows) - grid} of Parkinson's")
        for word in ("fem", "encrypted"):
            worst = max(abs(row[f"{word} ll"] - row["central ll"]) for row in self.rows.values())
            print(f"{word}: largest difference of log-likelihoods from central: {worst:.2e}")
        other = [
            name
            for name, row in self.rows.items()
            if len({row[f"{word} iterations"] for word in ("central", "fem", "encrypted")}) > 1
        ]
        print(f"rows with differing numbers of iterations: {len(other)} {other or ''}")


if __name__ == "__main__":
    main()
