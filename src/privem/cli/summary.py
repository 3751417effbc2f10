"""What a fit found: for programs as JSON values, for people as text and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from ..estimators import GaussianMixture, KMeans
from .console import numbers

__all__ = ["NOT_PRIVATE", "describe", "exact_results", "public_results"]

NOT_PRIVATE = "exact fit: nothing here is private. Treat the model as you would treat the data."

_FIGURES = (
    "mean_log_likelihood",
    "mean_log_posterior",
    "inertia",
    "mean_squared_distance",
)


def exact_results(estimator: Any, weight: float) -> dict[str, Any]:
    """What an exact fit found, its likelihood or inertia included."""
    match estimator:
        case GaussianMixture():
            bound = "log_likelihood" if estimator.prior is None else "log_posterior"
            return {
                "covariance": estimator.covariance_type,
                "prior": estimator.prior,
                f"mean_{bound}": float(estimator.lower_bound_),
                "parameters": _lists(estimator, "weights_", "means_", "covariances_"),
            }
        case KMeans():
            return {
                "inertia": estimator.inertia_,
                "mean_squared_distance": estimator.inertia_ / weight,
                "shares": (
                    np.bincount(estimator.labels_, minlength=estimator.n_clusters)
                    / len(estimator.labels_)
                ).tolist(),
                "parameters": _lists(estimator, "cluster_centers_"),
            }
    return {
        "mean_log_likelihood": estimator.loglike_[-1] / weight,
        "parameters": _lists(estimator, "mean_", "components_", "noise_variance_"),
    }


def public_results(estimator: Any) -> dict[str, Any]:
    """What a private fit released, and nothing else."""
    match estimator:
        case GaussianMixture():
            return {
                "covariance": estimator.covariance_type,
                "prior": estimator.prior,
                "structure": estimator.structure_,
                "parameters": _lists(estimator, "weights_", "means_", "covariances_"),
            }
        case KMeans():
            return {"parameters": _lists(estimator, "cluster_centers_")}
    return {"parameters": _lists(estimator, "mean_", "components_", "noise_variance_")}


def _lists(estimator: Any, *names: str) -> dict[str, Any]:
    return {name.rstrip("_"): getattr(estimator, name).tolist() for name in names}


def describe(summary: dict[str, Any], output: Path) -> list[RenderableType]:
    """A summary for people."""
    columns, parameters = summary["columns"], summary["parameters"]
    count = summary["components"]
    match summary["model"]:
        case "gmm":
            what = f"Gaussian mixture, {count} component(s), {summary['covariance']} covariance"
            labels = [str(k) for k in range(count)]
            values = np.column_stack([parameters["weights"], parameters["means"]])
            table = numbers("k", labels, ["weight", *columns], values.tolist())
            caption = "Weight and mean of each component:"
        case "kmeans":
            what = f"k-means, {count} cluster(s)"
            labels = [str(k) for k in range(count)]
            centres = parameters["cluster_centers"]
            caption = "Centre of each cluster:"
            table = numbers("k", labels, columns, centres)
            if "shares" in summary:
                values = np.column_stack([summary["shares"], centres])
                table = numbers("k", labels, ["share", *columns], values.tolist())
                caption = "Share of the rows and centre of each cluster:"
        case _:
            factors = len(parameters["components"])
            what = f"Factor analysis, {factors} factor(s)"
            labels = ["mean", *(f"factor {k}" for k in range(factors)), "noise sd"]
            noise = np.sqrt(parameters["noise_variance"])
            values = np.vstack([parameters["mean"], *parameters["components"], noise])
            table = numbers("", labels, columns, values.tolist())
            caption = "Means, loadings and noise of each column:"
    word = ""
    if "converged" in summary:
        word = " (converged)" if summary["converged"] else " (NOT converged)"
    lines = [
        f"{what}, of {summary['data']}",
        *([f"  rows                   {summary['rows']:,}"] if "rows" in summary else []),
        f"  columns                {len(columns)}",
        *(
            f"  {key.replace('_', ' '):<22} {summary[key]:.6g}"
            for key in _FIGURES
            if key in summary
        ),
        f"  iterations             {summary['iterations']}{word}",
        *([f"  time                   {summary['seconds']:.2f} s"] if "seconds" in summary else []),
        *([f"  structure              {_structure(summary)}"] if "structure" in summary else []),
        "",
        caption,
        "",
    ]
    said = [Text(summary["statement"])]
    if summary.get("epsilon") is not None:  # said of every file: whether it has any is not
        said.append(Text("Missing values, if there are any, counted as the lower bound."))
    return ["\n".join(lines), *table, "", *said, f"\nSaved to {output}"]


def _structure(summary: dict[str, Any]) -> str:
    if summary["structure"] == "single" and summary["components"] > 1:
        return "single: the noise supports no more than one Gaussian"
    return str(summary["structure"])
