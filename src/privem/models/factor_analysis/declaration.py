"""What the model declares about itself."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration("FactorAnalysis", "models.factor_analysis.estimator", "fa", count="n_components"),
)
