"""One page that compares two fitted models, from their parameters and statements alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

from ..accounting import NotValid, compose, epsilon
from ..meter import Statement
from . import sections
from .drawn import draw_from
from .html import Html, clean, figure, name, section, table, tag
from .marginals import marginals
from .page import framed, page, write_page
from .shapes import numbers_of, pairs_to_show, window_of

_DRAWN, _CLEAR, _PAIRS = 4000, 2.0, 3


@dataclass(frozen=True)
class Comparison:
    """A page that sets two fitted models side by side.

    Parameters
    ----------
    models : mapping of str to estimator
        Two fitted models, by the names that the page calls them.
    digests : mapping of str to str, optional
        The SHA-256 of their files, by the same names.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.report import Comparison
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> models = {str(e): KMeans(2, epsilon=e, bounds=4.0).fit(X) for e in (0.5, 2.0)}
    >>> "Released together" in Comparison(models).html
    True
    """

    models: Mapping[str, Any]
    digests: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.models, Mapping):
            raise TypeError(
                "a comparison takes models by name, as in Comparison({'first': a, 'second': b}), "
                f"got a {type(self.models).__name__}"
            )
        if len(self.models) != 2:
            raise ValueError(f"a comparison is of two models, got {len(self.models)}")

    @property
    def html(self) -> str:
        """The whole page."""
        errors = {key: sections.errors_of(model) for key, model in self.models.items()}
        drawn = {key: draw_from(model, _DRAWN) for key, model in self.models.items()}
        body = [
            section("Privacy statements", self._facts(), *self._statements()),
            section("The models", self._pictures(drawn), *self._parameters(errors)),
            section("What differs", *(tag("p", each) for each in self._words(errors))),
            self._synthetic(drawn),
        ]
        return page("Two models compared", " and ".join(self.models), body, "the models alone")

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the page, whole or not at all."""
        write_page(path, self.html)
        return self

    def _repr_html_(self) -> str:
        """The page inside a notebook."""
        return framed(self.html)

    def _each(self) -> list[Any]:
        return list(self.models.values())

    def _facts(self) -> Html:
        promises = [getattr(model, "privacy_", None) for model in self._each()]

        def said(what: Any) -> list[str]:
            return ["none" if each is None else what(each) for each in promises]

        rows: list[tuple[str, Sequence[str]]] = [
            ("model", [sections.title_of(model) for model in self._each()]),
            ("epsilon", said(lambda s: f"{s.epsilon:g}")),
            ("delta", said(lambda s: f"{s.delta:g}")),
            ("protects", said(lambda s: f"one {s.unit} ({s.neighbours})")),
            ("spent", said(lambda s: f"{s.spent:.4f}")),
            ("releases", said(lambda s: f"{len(s.releases):,}")),
            ("ledger", said(_charged)),
            ("columns", [f"{model.n_features_in_:,}" for model in self._each()]),
        ]
        if self.digests:
            hashes = [self.digests[key][:16] for key in self.models]
            rows.append(("SHA-256 of the file, its beginning", hashes))
        return tag(
            "div", table("Both at a glance", list(map(name, self.models)), rows), class_="words"
        )

    def _statements(self) -> list[Html]:
        pieces = []
        for key, model in self.models.items():
            pieces.append(tag("h3", name(key)))
            statement = getattr(model, "privacy_", None)
            if statement is None:
                pieces.append(tag("p", sections.NO_PROMISE, class_="warning"))
            else:
                pieces.append(sections.in_full(statement))
        return [*pieces, tag("h3", "Released together"), tag("p", self._together())]

    def _together(self) -> str:
        """What both cost, if they are about the same people."""
        one, other = (getattr(model, "privacy_", None) for model in self._each())
        if one is None or other is None:
            return "Of a model without a promise there is none together with another one either."
        if (one.unit, one.neighbours) != (other.unit, other.neighbours):
            return (
                "The two promises are about different changes of the data, and do not simply add "
                "up: a ledger converts one into the other where that is proved."
            )
        total, delta = _sum(one, other)
        return (
            f"If both are about the same people, whoever has both models has a promise of epsilon "
            f"{total:.4g} at delta {delta:g}, provided that neither budget was chosen after a look "
            "at the other model. A ledger keeps this promise for choices of every kind."
        )

    def _pictures(self, drawn: Mapping[str, pl.DataFrame | None]) -> Html | None:
        """The same pairs of columns for both, with the same limits."""
        first, second = self._each()
        names, others = first._names("x"), second._names("x")
        shapes = {key: model._shapes() for key, model in self.models.items()}
        records = {key: numbers_of(frame) for key, frame in drawn.items()}
        able = [key for key in self.models if shapes[key] is not None or records[key]]
        if names != others or len(able) < 2:
            return None
        start = next(iter(self.models))
        pairs = pairs_to_show(names, shapes[start], records[start])[:_PAIRS]
        panels = []
        for pair in pairs:
            ends = [
                [window_of(model, j, shapes[key], records[key]) for j in pair]
                for key, model in self.models.items()
            ]
            edges = tuple(
                (min(each[i][0] for each in ends), max(each[i][1] for each in ends)) for i in (0, 1)
            )
            for key, model in self.models.items():
                panel = sections.pair_panel(model, pair, shapes[key], records[key], edges)
                panels.append(tag("div", tag("p", name(key), class_="caption"), panel))
        caption = (
            "The same columns and limits for both. Points are records drawn from the models, not "
            "from the data."
        )
        return figure(tag("div", *panels, class_="panels two"), caption) if panels else None

    def _parameters(self, errors: Mapping[str, Any]) -> list[str]:
        pieces: list[str] = []
        for key, model in self.models.items():
            found = sections.parameters(model, errors[key])
            pieces += [] if found is None else [tag("h3", name(key)), found]
        return pieces

    def _words(self, errors: Mapping[str, Any]) -> list[str]:
        """Whether the numbers of both differ by more than noise."""
        (_, one), (_, other) = self.models.items()
        if type(one) is not type(other) or one._names("x") != other._names("x"):
            return [
                "The models are of different kinds or of different columns: their parameters do "
                "not compare. What compares are synthetic records, below, and private scores of "
                "both models (privem score --against)."
            ]
        first, second = (_numbers(model, errors[key]) for key, model in self.models.items())
        if first is None or second is None:
            return ["Without standard errors of both models, nothing tells noise from difference."]
        if first[0].shape != second[0].shape:
            return [f"The models have different numbers of {one._parts}: they do not compare."]
        return [_difference(first, second, one._parts)]

    def _synthetic(self, drawn: Mapping[str, pl.DataFrame | None]) -> Html | None:
        frames = [frame for frame in drawn.values() if frame is not None]
        if len(frames) < 2:
            return None
        common = [column for column in frames[0].columns if column in frames[1].columns]
        if not common:
            return None
        one, other = (clean(key, 60) for key in self.models)
        said = (
            f"Columns that both have, in {_DRAWN:,} records drawn from each model: {one} filled in "
            f"blue, {other} as an orange line or mark."
        )
        return section("Synthetic records", tag("p", said), marginals(frames, common))


def _charged(statement: Statement) -> str:
    entry = statement.ledger
    return "none" if entry is None else clean(f"{entry.dataset}, entry {entry.entry}")


def _sum(one: Statement, other: Statement) -> tuple[float, float]:
    """Epsilon and delta of both releases together."""
    delta = one.delta + other.delta
    added = one.epsilon + other.epsilon
    try:
        together = epsilon(compose(one.event(), other.event()), delta)
    except NotValid:
        return added, delta
    return min(added, together), delta


def _numbers(model: Any, errors: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Parameters of each component, and their standard errors, (K, p) both."""
    names = model._apart or model._effects or model._released
    if not all(each in errors for each in names) or not names:
        return None

    def rows(of: Mapping[str, Any]) -> Any:
        parts = [
            part
            for each in names
            for part in (of[each] if isinstance(of[each], list) else [of[each]])
        ]
        if not model._apart:
            return np.concatenate([np.ravel(part) for part in parts])[None]
        return np.concatenate([np.reshape(part, (len(part), -1)) for part in parts], axis=1)

    return rows(vars(model)), rows(errors)


def _difference(one: tuple[Any, Any], other: tuple[Any, Any], parts: str) -> str:
    """In words; components are matched so that they differ least."""
    apart = np.abs(one[0][:, None] - other[0][None])
    noise = np.hypot(one[1][:, None], other[1][None])
    z = np.where(apart > 0, apart / np.maximum(noise, 1e-100), 0.0)
    mine, theirs = linear_sum_assignment(np.mean(np.minimum(z, 1e6), axis=2))
    clear = z[mine, theirs] > _CLEAR
    matched = ""
    if len(mine) > 1:
        pairs = ", ".join(f"{j} with {k}" for j, k in zip(mine[:12], theirs[:12], strict=True))
        matched = f"With {parts} matched so that they differ least ({pairs}), "
    said = f"{int(clear.sum()):,} of {clear.size:,} numbers differ by more than two standard errors"
    return (
        f"{matched}{said} of the noise. By noise alone, about one in twenty would. What differs "
        "beyond that may be other records, other starts or another structure."
    )
