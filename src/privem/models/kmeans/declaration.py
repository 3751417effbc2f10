"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "KMeans",
        "models.kmeans.estimator",
        "kmeans",
        count="n_clusters",
        queries=("models.kmeans.model", "models.kmeans.query", "models.kmeans.grid"),
    ),
)
