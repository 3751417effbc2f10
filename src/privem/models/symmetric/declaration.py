"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "SymmetricMixture",
        "models.symmetric.mixture",
        "symmetric",
        queries=("models.symmetric.model",),
    ),
    Declaration(
        "SymmetricRegressionMixture",
        "models.symmetric.regression",
        "symmetric-regression",
        target=True,
        queries=("models.symmetric.model",),
    ),
)
