"""Private factors of the Olivetti faces, as pictures with numbers beside them.

    python experiments/factors/run.py [--out FOLDER] [--sizes 16 8] [--write]

Compares with ``expected.json`` and says what lies outside; ``--write`` puts new figures there. Data
come from the folder in PRIVEM_DATA (default ../shared/data). A record is an image, not a person.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np
from printed import figure_5, needed_epsilons

from privem import FactorAnalysis

HERE = Path(__file__).parent
DATA = Path(os.environ.get("PRIVEM_DATA", HERE.parents[2] / "shared" / "data"))
CONFIG = tomllib.loads((HERE / "config.toml").read_text())


def faces(side: int) -> np.ndarray:
    """400 images of side x side pixels in [0, 1]."""
    images = np.load(DATA / "olivetti_faces.npz")["images_u8"] / 255.0
    block = 64 // side
    return images.reshape(400, side, block, side, block).mean(axis=(2, 4)).reshape(400, -1)


def fit(train: np.ndarray, epsilon: float | None) -> FactorAnalysis:
    """Ten factors; the number of images is public (replace-one), pixels lie in [0, 1]."""
    return FactorAnalysis(
        CONFIG["factors"],
        epsilon=epsilon,
        delta=CONFIG["delta"],
        bounds=(0.0, 1.0),
        neighbours="replace-one",
        tol=CONFIG["gain"] * train.size,
        max_iter=CONFIG["most_iterations"],
    ).fit(train)


def directions(model: FactorAnalysis) -> np.ndarray:
    """Orthonormal directions of the factors that are not zero."""
    _, size, right = np.linalg.svd(model.components_, full_matrices=False)
    return right[size > 1e-9 * max(size[0], 1e-300)] if size[0] > 0 else right[:0]


def numbers(model: FactorAnalysis, exact: FactorAnalysis, test: np.ndarray) -> dict[str, float]:
    """What the pictures cannot say.

    ``score``: held-out log-likelihood per pixel. ``explained``: the part of the held-out variance
    about the exact mean that lies in the factors' span. ``found``: how much of the exact factors'
    span is in this one's (mean squared cosine); directions drawn at random have q/d.
    """
    span, reference = directions(model), directions(exact)
    centred = test - exact.mean_
    return {
        "score": model.score(test) / test.shape[1],
        "explained": float(np.sum((centred @ span.T) ** 2) / np.sum(centred**2)),
        "found": float(np.sum((span @ reference.T) ** 2) / len(reference)),
    }


def knowing_nothing(test: np.ndarray) -> dict[str, float]:
    """What needs no data: every pixel 0.5, give or take as if all greys were as likely."""
    variance, share = 1 / 12, CONFIG["factors"] / test.shape[1]
    score = -0.5 * (np.log(2 * np.pi * variance) + np.mean((test - 0.5) ** 2) / variance)
    return {"score": float(score), "explained": share, "found": share}


def one_size(side: int, splits: int, out: Path) -> dict[str, dict[str, float]]:
    """All fits of one size: medians over splits; the first split's factors as a picture."""
    X = faces(side)
    found: dict[str, list[dict[str, float]]] = {}
    shown: list[tuple[str, np.ndarray]] = []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(X))
        test, train = np.split(X[order], [len(X) // 10])
        exact = fit(train, None)
        found.setdefault("no data", []).append(knowing_nothing(test))
        for epsilon in (None, *CONFIG["epsilons"]):
            begin = time.perf_counter()
            model = exact if epsilon is None else fit(train, epsilon)
            seconds = time.perf_counter() - begin
            name = "exact" if epsilon is None else f"epsilon {epsilon:g}"
            found.setdefault(name, []).append(numbers(model, exact, test))
            if split == 0:
                shown.append((f"{name}\n{found[name][0]['score']:.2f}", model.components_))
                print(f"  {name}: {model.n_iter_} iterations, {seconds:.1f} s", flush=True)
    picture(out / f"factors-{side}.png", shown, side)
    return {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for name, rows in found.items()
    }


def picture(path: Path, rows: list[tuple[str, np.ndarray]], side: int) -> None:
    """One row of factors per fit, each in its own range."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.15 * len(rows)))
    axes = figure.subplots(len(rows), CONFIG["factors"], squeeze=False)
    for line, (name, components) in zip(axes, rows, strict=True):
        for axis, component in zip(line, components, strict=True):
            most = max(float(np.abs(component).max()), 1e-300)
            axis.imshow(component.reshape(side, side), cmap="gray", vmin=-most, vmax=most)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    figure.subplots_adjust(left=0.12, right=0.995, top=0.99, bottom=0.01, wspace=0.05, hspace=0.05)
    figure.savefig(path, dpi=110)


def compare(results: dict[str, dict[str, dict[str, float]]], expected: dict) -> list[str]:
    """What lies outside the expected figures; noise differs from run to run."""
    away = []
    for size, fits in results.items():
        for name, values in fits.items():
            for key, value in values.items():
                known = expected.get(size, {}).get(name, {}).get(key)
                room = expected["room"][key]
                if known is None or not abs(value - known) <= room:
                    away.append(f"{size}, {name}: {key} is {value:.3f}, expected {known}")
    return away


def main() -> None:
    """Run, print, draw, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--sizes", nargs="*", default=list(CONFIG["sizes"]))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # Not converging shows in the figures.
    results: dict[str, dict[str, dict[str, float]]] = {}
    for size in options.sizes:
        side = int(size)
        print(f"\n{side} x {side}, d = {side * side}")
        results[size] = one_size(side, CONFIG["sizes"][size], options.out)
        for name, row in results[size].items():
            print(f"    {name:<14}" + "".join(f"{k:>12} {v:7.3f}" for k, v in row.items()))
    if "64" in options.sizes:
        print("\nThe mechanism of Park et al. 2017, d = 4096")
        results["paper"], shown = figure_5(faces(64), CONFIG)
        picture(options.out / "figure-5.png", shown, 64)
        results["needed"] = needed_epsilons(faces(64), CONFIG)
        for name, row in (results["paper"] | results["needed"]).items():
            print(f"    {name:<14}" + "".join(f"{k:>18} {v:9.3f}" for k, v in row.items()))
    path = HERE / "expected.json"
    expected = json.loads(path.read_text())
    if options.write:
        rounded = {
            size: {n: {k: round(v, 3) for k, v in row.items()} for n, row in fits.items()}
            for size, fits in results.items()
        }
        path.write_text(json.dumps(expected | rounded, indent=1) + "\n")
        return
    away = compare(results, expected)
    print("\n" + ("\n".join(away) if away else "all figures as expected"))
    raise SystemExit(bool(away))


if __name__ == "__main__":
    main()
