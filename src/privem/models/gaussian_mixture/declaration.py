"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "GaussianMixture",
        "models.gaussian_mixture.estimator",
        "gmm",
        count="n_components",
        queries=(
            "models.gaussian_mixture.model",
            "models.gaussian_mixture.assigned",
            "models.gaussian_mixture.query",
        ),
    ),
)
