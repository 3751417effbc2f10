"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import Declaration, MadeUp, ParameterTable, Public, counted


def _shares(model: Any) -> list[float]:
    """Of the rows in each cluster; only an exact fit of our own rows knows them."""
    if not hasattr(model, "labels_"):
        return []
    return [float((model.labels_ == k).mean()) for k in range(model.n_clusters)]


def _figures(model: Any, weight: float | None) -> dict[str, Any]:
    if weight is None:
        return {}
    return {
        "inertia": model.inertia_,
        "mean_squared_distance": model.inertia_ / weight,
        "shares": _shares(model),
    }


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    title, columns = f"k-means, {counted(model.n_clusters, 'cluster')}", model._names("x")
    shares, centres = _shares(model), of["cluster_centers_"]
    if not shares:
        return ParameterTable(title, "Centre of each cluster:", columns, centres)
    rows = [[share, *centre] for share, centre in zip(shares, centres, strict=True)]
    caption = "Share of the rows and centre of each cluster:"
    return ParameterTable(title, caption, ["share", *columns], rows)


def _family(public: Public, rng: Any) -> MadeUp:
    from dataclasses import replace

    from ...families import groups

    made = groups(public, rng)
    (X,) = made.data
    # One centre in the middle of the bounds.
    alone = -float((X**2).sum(axis=1).mean())
    return replace(made, alone=alone, sizes={"cluster_centers_": made.sizes["means_"]})


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "KMeans",
        "models.kmeans.estimator",
        "kmeans",
        "k-means",
        count="n_clusters",
        density=False,
        queries=("models.kmeans.model", "models.kmeans.query", "models.kmeans.grid"),
        own_family=_family,
        figures=_figures,
        table=_table,
    ),
)
