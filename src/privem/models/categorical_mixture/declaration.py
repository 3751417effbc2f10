"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "CategoricalMixture",
        "models.categorical_mixture.estimator",
        "categorical",
        count="n_components",
        categories=True,
        queries=("models.categorical_mixture.model",),
    ),
)
