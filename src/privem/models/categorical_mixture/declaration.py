"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, ParameterTable


def _audit_case(s: Any) -> AuditCase:
    # Two columns that always agree: classes nobody can doubt.
    agreeing = s.columns(s.signs > 0, s.signs > 0).astype(float)
    return AuditCase(agreeing, [1.0, 1.0], [0.0, 0.0], {"categories": [0, 1]})


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    cells = [
        (f"{column}={category}", probabilities[:, j])
        for column, known, probabilities in zip(
            model._names("x"), model.categories_, of["category_probs_"], strict=True
        )
        for j, category in enumerate(known)
    ]
    return ParameterTable(
        f"Latent classes, {model.n_components} of them",
        "Weight of each class, and probabilities within it:",
        [f"class {k}" for k in range(model.n_components)],
        [of["weights_"], *(values for _, values in cells)],
        ["weight", *(label for label, _ in cells)],
    )


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "CategoricalMixture",
        "models.categorical_mixture.estimator",
        "categorical",
        "latent classes, for columns of categories",
        count="n_components",
        categories=True,
        queries=tuple(f"models.categorical_mixture.{name}" for name in ("model", "pairs")),
        audit_case=_audit_case,
        table=_table,
    ),
)
