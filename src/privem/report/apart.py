"""What can be told apart in a model and what cannot, in plain words.

From the parameters and the standard errors that noise causes in them: both are released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..declaration import declaration_of
from .html import Html, clean, join, tag
from .numbers import with_error

# A number is told from zero by so many standard errors.
_CLEAR = 2.0
# Of a list, so many are named.
_NAMED = 12


def told_apart(model: Any, errors: Mapping[str, Any]) -> Html:
    """The sentences of the section; ``errors`` are empty for an exact fit."""
    if not hasattr(model, "privacy_"):
        return tag(
            "p",
            "The fit is exact: no noise was added, so nothing is hidden by noise. How far the "
            "numbers would differ in another sample of records is not said here.",
        )
    if not errors:
        return tag(
            "p",
            "The model was saved before standard errors were: what noise hides is not known. Fit "
            "it again to know.",
        )
    items = [*_components(model, errors), *_effects(model, errors), *_cells(model, errors)]
    items += _hidden(model)
    caveat = (
        "A standard error here is what the added noise does to a number. It is not the error of a "
        "sample, and it does not say what the clipping of records to their bounds has changed."
    )
    listed = tag("ul", *(tag("li", item) for item in items))
    return join([listed if items else None, tag("p", caveat, class_="note")])


def _components(model: Any, errors: Mapping[str, Any]) -> list[str]:
    """Of a mixture: one in place of all, alike, or hardly there."""
    weights = getattr(model, "weights_", None)
    count = len(weights) if weights is not None else _rows(model)
    if getattr(model, "structure_", None) == "single":
        many = f"all {count} {model._parts} are the same one" if count > 1 else "there is one"
        return [
            f"Noise leaves room for no structure beyond the simplest: {many}. With more records or "
            "a larger epsilon there may be more to see."
        ]
    if count < 2 or not model._apart:
        return []
    said = []
    pairs = model._alike()
    if pairs:
        these = _few([f"{j} and {k}" for j, k in pairs])
        said.append(
            f"{_upper(model._parts)} that cannot be told apart, because they differ by no more "
            f"than noise: {these}."
        )
    else:
        said.append(
            f"All {count} {model._parts} can be told apart: every two differ by more than noise "
            "explains."
        )
    if weights is not None and "weights_" in errors:
        faint = np.flatnonzero(weights < _CLEAR * np.asarray(errors["weights_"]))
        if len(faint):
            these = _few([f"{k} ({with_error(weights[k], errors['weights_'][k])})" for k in faint])
            said.append(
                f"{_upper(model._parts)} that may be nothing but noise, because their weights are "
                f"below two standard errors: {these}."
            )
    return said


def _rows(model: Any) -> int:
    """How many components there are, of a model without weights."""
    return len(getattr(model, model._apart[0])) if model._apart else 0


def _effects(model: Any, errors: Mapping[str, Any]) -> list[str]:
    """Coefficients and loadings that noise alone could explain."""
    said = []
    for attribute in model._effects:
        values = np.atleast_2d(getattr(model, attribute))
        noise = np.atleast_2d(errors[attribute])
        names, several = model._names("x"), len(values) > 1
        faint = np.argwhere(np.abs(values) < _CLEAR * noise)
        where = [
            f"{clean(names[j], 40)}{f' (number {k})' if several else ''}: "
            f"{with_error(values[k, j], noise[k, j])}"
            for k, j in faint
        ]
        total = values.size
        if where:
            said.append(
                f"{len(where)} of {total} coefficients cannot be told from zero, being below two "
                f"standard errors: {_few(where)}."
            )
        else:
            said.append(f"All {total} coefficients are further from zero than two standard errors.")
    return said


def _cells(model: Any, errors: Mapping[str, Any]) -> list[str]:
    """Of a model without components or coefficients to compare: its numbers against their noise."""
    made = declaration_of(model).table
    if model._apart or model._effects or made is None:
        return []
    pairs = [
        (abs(float(value)), float(error))
        for values, noise in zip(
            made(model, vars(model)).rows, made(model, errors).rows, strict=True
        )
        for value, error in zip(values, noise, strict=True)
    ]
    faint = sum(value < _CLEAR * error for value, error in pairs)
    if not faint:
        return [
            f"All {len(pairs):,} numbers in the table of parameters are further from zero than two "
            "standard errors."
        ]
    return [
        f"{faint:,} of {len(pairs):,} numbers in the table of parameters cannot be told from zero, "
        "being below two standard errors."
    ]


def _hidden(model: Any) -> list[str]:
    """What the density leaves to a uniform background, and what lies outside of bounds."""
    said = []
    weight = float(getattr(model, "background_weight_", 0.0))
    if weight:
        said.append(
            f"{weight:.1%} of the model is a background, uniform between the bounds: it stands for "
            "what noise hides and for outliers."
        )
    outside = getattr(model, "outside_", None)
    if outside is not None:
        said.append(
            f"The bounds were found with noise: up to {outside:.1%} of the records may lie outside "
            "of them in any column, and were clipped."
        )
    return said


def _few(items: Sequence[str]) -> str:
    more = f", and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


def _upper(word: str) -> str:
    return word[:1].upper() + word[1:]
