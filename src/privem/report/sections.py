"""The sections of a model's page, each from what the model says of itself."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from .. import __version__
from ..declaration import ParameterTable, declaration_of
from ..meter import Statement
from .apart import told_apart
from .costs import costs
from .drawn import draw_from
from .html import Html, clean, facts, figure, join, name, section, table, tag
from .marginals import marginals
from .numbers import cells_of
from .shapes import Shapes, numbers_of, pairs_to_show, window_of
from .svg import effects, scatter

# Records that are drawn for a page; characters of a value.
_DRAWN, _LONG = 4000, 600
# A statement of more characters scrolls.
_SCROLLS = 2000
# Effects of so many columns are drawn.
_DRAWN_EFFECTS = 40
# An epsilon above this promises little by itself.
_WEAK = 5.0
NO_PROMISE = (
    "This model carries no promise of privacy. It was fitted exactly, without noise: its numbers, "
    "this page and records drawn from it may give away who is in the data. Treat them as you would "
    "treat the data."
)


def title_of(model: Any) -> str:
    """A title: what kind of model, and how large."""
    made = declaration_of(model).table
    return type(model).__name__ if made is None else made(model, vars(model)).title


def errors_of(model: Any) -> dict[str, Any]:
    """Standard errors of a private fit; none of an exact one, or of an old file."""
    try:
        found: dict[str, Any] = model.uncertainty()
    except ValueError:
        return {}
    return found


def promise(model: Any) -> Html:
    """The privacy statement, in numbers, in full and in plain words."""
    statement: Statement | None = getattr(model, "privacy_", None)
    if statement is None:
        return section("Privacy statement", tag("p", NO_PROMISE, class_="warning"))
    text = [
        in_full(statement),
        tag("h3", "In plain words"),
        *(tag("p", each) for each in in_plain_words(statement)),
    ]
    return section("Privacy statement", key_figures(statement), *text)


def in_full(statement: Statement) -> Html:
    """The statement as it is printed and signed; a long one scrolls on a screen."""
    said = clean(str(statement), 10**6)
    how = {"class_": "long", "tabindex": 0} if len(said) > _SCROLLS else {}
    return tag("blockquote", tag("p", said), **how)


def key_figures(statement: Statement) -> Html:
    """The promise in numbers."""
    numbers = sum(group.dimension for record in statement.releases for group in record.groups)
    hidden = "added or removed" if statement.neighbours == "add-remove" else "replaced"
    return facts(
        [
            ("epsilon", f"{statement.epsilon:g}"),
            ("delta", f"{statement.delta:g}"),
            ("protects", f"one {statement.unit}, {hidden}"),
            (
                "noise is added",
                "by each person's device" * (statement.trust == "local") or "to sums",
            ),
            ("spent", f"epsilon {statement.spent:.4f}"),
            ("accountant", statement.priced_by),
            ("releases", f"{len(statement.releases):,}"),
            ("numbers released", f"{numbers:,}"),
        ]
    )


def in_plain_words(statement: Statement) -> list[str]:
    """What the promise means, and what it does not."""
    factor = math.exp(min(statement.epsilon, 700.0))
    times = f"{factor:,.0f}" if 100 <= factor < 1e9 else f"{factor:.3g}"
    change = (
        f"with any one {statement.unit} in the data or without"
        if statement.neighbours == "add-remove"
        else f"whatever any one {statement.unit} says"
    )
    slack = ""
    if statement.delta:
        slack = f", give or take a probability of one in {1 / statement.delta:,.0f}"
    strength = (
        f"A factor as large as this is a weak promise: much may be learnt about a {statement.unit}."
        if statement.epsilon > _WEAK
        else f"So what the model and this page can tell about any single {statement.unit} is "
        "limited, whatever else the reader knows."
    )
    return [
        f"This model could have come about {change}: the probability of every outcome differs by a "
        f"factor of at most {times}{slack}. {strength}",
        f"It is no promise that nothing can be learnt about groups of {statement.unit}s: that is "
        "what a model is for. It holds if what the statement takes as public is indeed public, and "
        f"it adds up with everything else that is released about the same {statement.unit}s.",
    ]


def the_model(model: Any, errors: Mapping[str, Any]) -> Html:
    """Its parameters with standard errors, and its pictures."""
    drawn = draw_from(model, _DRAWN)
    pieces = [facts(_facts(model)), single(model), parameters(model, errors)]
    pieces.append(_pictured(model, errors, drawn))
    return section("The model", *pieces)


def _facts(model: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, Any]] = [("columns", f"{model.n_features_in_:,}")]
    target = getattr(model, "target_name_in_", None)
    found += [] if target is None else [("target", name(target))]
    found += [("iterations", getattr(model, "n_iter_", None))]
    found += [("structure", getattr(model, "structure_", None))]
    found += list(declaration_of(model).figures(model, None).items())
    return [
        (key.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else _text(value))
        for key, value in found
        if value is not None
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def parameters(model: Any, errors: Mapping[str, Any], rows: int | None = None) -> Html | None:
    """The table of parameters; many columns become rows. ``rows``: so many at most."""
    made = declaration_of(model).table
    if made is None:
        return None
    values = made(model, vars(model))
    around = made(model, errors) if errors else None
    labels = list(values.labels or [str(k) for k in range(len(values.rows))])
    columns, cells = list(values.columns), _cells(values, around)
    if len(columns) > len(labels) and len(columns) > 8:
        labels, columns = columns, labels
        cells = [list(line) for line in zip(*cells, strict=True)]
    caption = values.caption.rstrip(":") + (" ± standard error of the noise" if errors else "")
    body = [(name(label), line) for label, line in zip(labels, cells, strict=True)][:rows]
    if len(body) < len(labels):
        caption += f" (the first {len(body)} of {len(labels):,} rows)"
    return table(caption, [name(each) for each in columns], body)


def _cells(values: ParameterTable, around: ParameterTable | None) -> list[list[str]]:
    """Numbers by rows, to the digits that mean something in their columns."""
    by_column = [
        cells_of(
            [float(line[j]) for line in values.rows],
            None if around is None else [float(line[j]) for line in around.rows],
        )
        for j in range(len(values.columns))
    ]
    return [list(line) for line in zip(*by_column, strict=True)]


def _pictured(model: Any, errors: Mapping[str, Any], drawn: Any) -> Html | None:
    shapes, records = model._shapes(), numbers_of(drawn)
    names = model._names("x")
    pairs = pairs_to_show(names, shapes, records) if shapes is not None or records else []
    if pairs:
        panels = [pair_panel(model, pair, shapes, records) for pair in pairs]
        return figure(tag("div", *panels, class_="panels"), _caption(model, shapes, records, names))
    for attribute in model._effects:
        if attribute in vars(model):
            return _drawn_effects(model, attribute, errors)
    return None


def pair_panel(
    model: Any,
    pair: tuple[int, int],
    shapes: Shapes | None,
    records: Mapping[str, Any],
    edges: Any = None,
) -> Html:
    """One pair of columns; ``edges``: limits of both, where other pictures share them."""
    names = model._names("x")
    found = edges or tuple(window_of(model, j, shapes, records) for j in pair)
    x, y = (names[j] for j in pair)
    both = (records[x], records[y]) if x in records and y in records else None
    return tag("div", scatter((x, y), pair, found, both, shapes))


def _caption(
    model: Any, shapes: Shapes | None, records: Mapping[str, Any], names: list[str]
) -> str:
    said = []
    if records:
        said.append("Points are records drawn from the model, not from the data.")
    if shapes is not None:
        count, shown = len(shapes.centres), len(shapes.shown)
        some = f"the {shown} heaviest of {count}" if 1 < shown < count else "the"
        number = f"Numbers are {some} {model._parts}, as in the table"
        if shown == 1:
            number = "The number is the centre of the model"
        rings = shapes.covariance is not None
        said.append(f"{number}{', with ellipses at one and two deviations' * rings}.")
    if len(names) > 4:
        said.append("Of all pairs of columns, some that show most.")
    return " ".join(said)


def _drawn_effects(model: Any, attribute: str, errors: Mapping[str, Any]) -> Html:
    import numpy as np

    values = np.atleast_2d(getattr(model, attribute))
    noise = np.atleast_2d(errors.get(attribute, np.zeros_like(values)))
    rows = [
        (each, [(float(v), float(e)) for v, e in zip(values[:, j], noise[:, j], strict=True)])
        for j, each in enumerate(model._names("x")[:_DRAWN_EFFECTS])
    ]
    caption = "Coefficients"
    if errors:
        caption += ", with two standard errors of the noise on either side"
    if len(values) > 1:
        caption += f"; {model._parts} in the order of the table, from above"
    if values.shape[1] > _DRAWN_EFFECTS:
        caption += f"; the first {_DRAWN_EFFECTS} of {values.shape[1]:,} columns"
    return figure(tag("div", effects(caption, rows), class_="wide"), f"{caption}.")


def single(model: Any) -> Html | None:
    """A word before the table, where all components are the same one."""
    shapes = model._shapes()
    if shapes is None or len(shapes.centres) < 2 or shapes.shown != [0]:
        return None
    return tag("p", f"All {len(shapes.centres)} {model._parts} are the same one.")


def apart(model: Any, errors: Mapping[str, Any]) -> Html:
    """What can be told apart, and what cannot."""
    return section("What can be told apart", told_apart(model, errors))


def synthetic(model: Any) -> Html:
    """How columns of synthetic records are spread."""
    drawn = draw_from(model, _DRAWN)
    if drawn is None:
        said = (
            "A model of a target given the other columns has no distribution of those columns: "
            "there are no synthetic records to show."
            if declaration_of(model).target
            else "This model has centres but no distribution: there are no synthetic records to "
            "show."
        )
        return section("Synthetic records", tag("p", said))
    said = (
        f"Each column of {len(drawn):,} records drawn from the model. None of them was taken from "
        "the data."
    )
    return section("Synthetic records", tag("p", said), marginals([drawn], drawn.columns))


def released(model: Any) -> Html | None:
    """What left the data, and which part of the budget it took."""
    if not hasattr(model, "privacy_"):
        return None
    return section("What was released, and its cost", costs(model.privacy_))


def reproduce(model: Any, source: str | None, digest: str | None) -> Html:
    """How to cite the model, check it and fit another one."""
    kind, file = type(model).__name__, source or "model.json"
    statement: Statement | None = getattr(model, "privacy_", None)
    promised = (
        "without privacy"
        if statement is None
        else f"({statement.epsilon:g}, {statement.delta:g})-differentially private with respect to "
        + ("adding or removing" if statement.neighbours == "add-remove" else "replacing")
        + f" one {statement.unit}"
    )
    cited = (
        f"The privem maintainers. privem: Expectation Maximization without giving away the people "
        f"in the data. Software, version {__version__}. The model: {title_of(model)}, fitted "
        f"{promised}."
    )
    commands = [f"privem report {file} -o report.html"]
    if statement is not None:
        commands.insert(0, f"privem audit {file}")
    if hasattr(model, "sample_frame"):
        commands.append(f"privem sample {file} -n 1000 -o synthetic.csv")
    if statement is not None and statement.ledger is not None:
        commands.append(f"privem ledger verify LEDGER {file}")
    again = "The same call fits another model: noise is fresh every time, and every fit spends."
    code = f"from privem import {kind}\n\nmodel = {_call(model)}.fit(...)"
    known = None
    if digest is not None:
        known = tag("p", "The model file has the SHA-256 ", tag("code", digest), ".")
    return section(
        "How to cite and reproduce",
        tag("p", cited),
        known,
        tag("h3", "Check the statement, draw records, make this page"),
        _code("\n".join(commands)),
        tag("h3", "Parameters of the fit"),
        _code(code),
        tag(
            "p", again if statement is not None else "The data are needed for that.", class_="note"
        ),
    )


def _code(text: str) -> Html:
    lines = "\n".join(clean(line, _LONG) for line in text.split("\n"))
    return tag("pre", tag("code", lines), tabindex=0)


def _call(model: Any) -> str:
    """How the estimator was made: the parameters that are not the default."""
    defaults = inspect.signature(type(model)).parameters
    changed = [
        f"    {key}={_short_repr(value)},"
        for key, value in model._saved_parameters().items()
        if repr(value) != repr(defaults[key].default)
    ]
    inside = "\n".join(["", *changed, ""]) if changed else ""
    return f"{type(model).__name__}({inside})"


def _short_repr(value: Any) -> str:
    # A file makes lists of tuples: the same model has the same page.
    said = " ".join(repr(list(value) if isinstance(value, tuple) else value).split())
    return said if len(said) <= _LONG else f"{said[:_LONG]} ..."


def short(model: Any) -> Html:
    """The short form: title, promise, the first parameters, one picture."""
    statement: Statement | None = getattr(model, "privacy_", None)
    lead = (
        NO_PROMISE
        if statement is None
        else f"({statement.epsilon:g}, {statement.delta:g})-differentially private per "
        f"{statement.unit}: {len(statement.releases)} releases, spent epsilon "
        f"{statement.spent:.4f}. print(model.privacy_) has the whole statement."
    )
    shapes, records = model._shapes(), numbers_of(draw_from(model, 1000))
    names = model._names("x")
    pairs = pairs_to_show(names, shapes, records, 2) if shapes is not None or records else []
    picture = [pair_panel(model, pair, shapes, records) for pair in pairs[:1]]
    return join(
        [
            tag("p", tag("b", title_of(model))),
            tag("p", lead, class_=None if statement else "warning"),
            parameters(model, errors_of(model), 8),
            tag("div", *picture, class_="panels") if picture else None,
        ]
    )
