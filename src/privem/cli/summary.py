"""What a fit found: for programs as JSON values, for people as text and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from .. import FactorAnalysis, GaussianMixture, KMeans
from .console import numbers

__all__ = ["NOT_PRIVATE", "describe", "exact_results", "public_results"]

NOT_PRIVATE = "exact fit: nothing here is private. Treat the model as you would treat the data."

_FIGURES = (
    "mean_log_likelihood",
    "mean_log_posterior",
    "inertia",
    "mean_squared_distance",
)

_FACTORS = ("mean_", "components_", "noise_variance_")
# What the other models consist of, as far as they have it.
_LATENT = (
    "weights_",
    "mean_",
    "coef_",
    "intercept_",
    "noise_variance_",
    "missing_probability_",
    "category_probs_",
    "categories_",
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
        case FactorAnalysis():
            return {
                "mean_log_likelihood": estimator.loglike_[-1] / weight,
                "parameters": _lists(estimator, *_FACTORS),
            }
    # A fit by moments climbs no likelihood.
    likelihood = getattr(estimator, "lower_bound_", None)
    climbed = {} if likelihood is None else {"mean_log_likelihood": float(likelihood)}
    return {**climbed, "parameters": _lists(estimator, *_LATENT)}


def public_results(estimator: Any) -> dict[str, Any]:
    """What a private fit released, and nothing else."""
    match estimator:
        case GaussianMixture():
            return {
                "covariance": estimator.covariance_type,
                "prior": estimator.prior,
                "structure": getattr(estimator, "structure_", None),
                "parameters": _lists(estimator, "weights_", "means_", "covariances_"),
            }
        case KMeans():
            return {"parameters": _lists(estimator, "cluster_centers_")}
        case FactorAnalysis():
            return {"parameters": _lists(estimator, *_FACTORS)}
    structure = getattr(estimator, "structure_", None)
    said = {} if structure is None else {"structure": structure}
    return {**said, "parameters": _lists(estimator, *_LATENT)}


def _lists(estimator: Any, *names: str) -> dict[str, Any]:
    """Parameters by name, those that the model has."""
    found = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    return {name.rstrip("_"): _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    return (
        [_plain(part) for part in value] if isinstance(value, list) else np.asarray(value).tolist()
    )


def describe(summary: dict[str, Any], output: Path) -> list[RenderableType]:
    """A summary for people."""
    what, caption, table = _main_table(summary)
    word = ""
    if "converged" in summary:
        word = " (converged)" if summary["converged"] else " (NOT converged)"
    lines = [
        f"{what}, of {summary['data']}",
        *([f"  rows                   {summary['rows']:,}"] if "rows" in summary else []),
        *(f"  {key:<22} {', '.join(who)}" for key, who in _attendance(summary) if who),
        f"  columns                {len(summary['columns'])}",
        *([f"  target                 {summary['target']}"] if "target" in summary else []),
        *([f"  noise variance         {_noise(summary):.6g}"] if _noise(summary) else []),
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
    mapped = "parties" in summary and summary["model"] not in ("missing-regression", "categorical")
    if mapped and summary.get("epsilon") is not None:  # whether there are any is not said
        said.append(Text("Missing values, if there are any, counted as the lower bound."))
    return ["\n".join(lines), *table, "", *said, f"\nSaved to {output}"]


def _main_table(summary: dict[str, Any]) -> tuple[str, str, list[RenderableType]]:
    """What was fitted, what its table shows, and the table."""
    columns, parameters = summary["columns"], summary["parameters"]
    count = summary["components"]
    labels = [str(k) for k in range(count or 0)]
    match summary["model"]:
        case "gmm":
            what = f"Gaussian mixture, {count} component(s), {summary['covariance']} covariance"
            values = np.column_stack([parameters["weights"], parameters["means"]])
            table = numbers("k", labels, ["weight", *columns], values.tolist())
            return what, "Weight and mean of each component:", table
        case "kmeans":
            what = f"k-means, {count} cluster(s)"
            centres = parameters["cluster_centers"]
            if "shares" not in summary:
                return what, "Centre of each cluster:", numbers("k", labels, columns, centres)
            values = np.column_stack([summary["shares"], centres])
            table = numbers("k", labels, ["share", *columns], values.tolist())
            return what, "Share of the rows and centre of each cluster:", table
        case "fa":
            factors = len(parameters["components"])
            what = f"Factor analysis, {factors} factor(s)"
            labels = ["mean", *(f"factor {k}" for k in range(factors)), "noise sd"]
            noise = np.sqrt(parameters["noise_variance"])
            values = np.vstack([parameters["mean"], *parameters["components"], noise])
            table = numbers("", labels, columns, values.tolist())
            return what, "Means, loadings and noise of each column:", table
        case "regression-mixture":
            what = f"Mixture of {count} linear regression(s)"
            names = ("weights", "noise_variance", "intercept", "coef")
            values = np.column_stack([parameters[name] for name in names])
            heads = ["weight", "noise var.", "intercept", *columns]
            table = numbers("k", labels, heads, values.tolist())
            return what, "Weight, noise, intercept and coefficients of each component:", table
        case "categorical":
            what = f"Latent classes, {count} of them"
            heads = [
                f"{column}={category}"
                for column, known in zip(columns, parameters["categories"], strict=True)
                for category in known
            ]
            values = np.concatenate(parameters["category_probs"], axis=1)
            shares = np.reshape(parameters["weights"], (1, -1))
            cells = np.concatenate([shares, values.T])
            table = numbers("", ["weight", *heads], [f"class {k}" for k in labels], cells.tolist())
            return what, "Weight of each class, and probabilities within it:", table
        case "symmetric":
            table = numbers("", ["b"], columns, [parameters["mean"]])
            return "Symmetric mixture: b or -b, and noise", "The mean b:", table
    regressions = {
        "symmetric-regression": "Symmetric regression: <b, x> or -<b, x>, and noise",
        "missing-regression": "Regression on columns with missing values",
    }
    table = numbers("", ["b"], columns, [parameters["coef"]])
    return regressions[summary["model"]], "The coefficients b:", table


def _attendance(summary: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Of a federated fit: who took part, refused, was lost."""
    return list(summary.get("attendance", {}).items())


def _noise(summary: dict[str, Any]) -> float | None:
    """The noise variance, where there is but one."""
    noise = summary["parameters"].get("noise_variance")
    return noise if isinstance(noise, float) else None


def _structure(summary: dict[str, Any]) -> str:
    if summary["structure"] == "single" and summary["components"] > 1:
        what = "regression" if "target" in summary else "Gaussian"
        return f"single: the noise supports no more than one {what}"
    return str(summary["structure"])
