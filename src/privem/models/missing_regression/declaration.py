"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "MissingCovariateRegression",
        "models.missing_regression.estimator",
        "missing-regression",
        target=True,
        queries=("models.missing_regression.model", "models.missing_regression.moments"),
    ),
)
