"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "RegressionMixture",
        "models.regression_mixture.estimator",
        "regression-mixture",
        count="n_components",
        target=True,
        queries=("models.regression_mixture.model", "models.regression_mixture.directions"),
    ),
)
