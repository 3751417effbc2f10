"""One page about a fitted model that can be handed on: a single HTML file, without a network."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..files import write_whole
from ..ledger.budget import LedgerError
from ..ledger.ledger import Ledger, open_ledger
from . import sections
from .choice import chosen_from
from .html import Html, clean, join, tag
from .ledger import ledger_state
from .style import PAPER, STYLE

# Nothing is fetched and nothing runs, whatever a page may hold.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Report:
    """A page about a fitted model, from its parameters and its privacy statement alone.

    It begins with the statement; then come the model with the standard errors that noise causes,
    what can be told apart, synthetic records, the releases with their cost, the ledger, and how to
    cite and reproduce. Nothing is computed from the data.

    Parameters
    ----------
    model : estimator
        Fitted, or loaded from a file (:func:`privem.load`).
    source, digest : str, optional
        The name of its file, and that file's SHA-256, to be told on the page.
    ledger : Ledger, path or str, optional
        The data set's ledger: its budget and its last runs are shown too.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.report import Report
    >>> model = KMeans(2, bounds=4.0).fit(np.random.default_rng(0).normal(size=(500, 2)))
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> "Privacy statement" in Report(model).save(path).html
    True
    """

    model: Any
    source: str | None = None
    digest: str | None = None
    ledger: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, BaseEstimator):
            raise TypeError(
                f"a page is about a fitted model, got a {type(self.model).__name__}; "
                "privem.load(path) makes one of a model file"
            )
        check_is_fitted(self.model)
        entry = getattr(getattr(self.model, "privacy_", None), "ledger", None)
        if self.ledger is None or entry is None:
            return
        ledger = open_ledger(self.ledger)
        if ledger.dataset != entry.dataset:
            raise LedgerError(
                f"the model was charged to the ledger of {entry.dataset!r}, and this one is of "
                f"{ledger.dataset!r}"
            )

    @property
    def html(self) -> str:
        """The whole page."""
        model, errors = self.model, sections.errors_of(self.model)
        ledger: Ledger | None = None if self.ledger is None else open_ledger(self.ledger)
        body = [
            sections.promise(model),
            sections.the_model(model, errors),
            sections.apart(model, errors),
            chosen_from(model),
            sections.synthetic(model),
            sections.released(model),
            ledger_state(model, ledger),
            sections.reproduce(model, self.source, self.digest),
        ]
        kind = " · ".join(filter(None, [type(model).__name__, self.source]))
        alone = ledger is None or not hasattr(model, "privacy_")
        made_from = "the model alone" if alone else "the model and the ledger alone"
        return page(sections.title_of(model), kind, body, made_from)

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the page, whole or not at all."""
        write_page(path, self.html)
        return self

    def _repr_html_(self) -> str:
        """The page inside a notebook."""
        return framed(self.html)


def page(title: str, subtitle: str | None, body: list[Html | None], made_from: str) -> str:
    """A whole HTML document of sections."""
    shown = clean(title, 200)
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="referrer" content="no-referrer">'),
        tag("title", f"{shown}: privacy report"),
        tag("style", Html(STYLE + PAPER)),
    ]
    top = tag(
        "header",
        tag("p", "Privacy report", class_="kicker"),
        tag("h1", shown),
        None if subtitle is None else tag("p", tag("bdi", clean(subtitle)), class_="note"),
    )
    foot = tag("footer", tag("p", f"Made by privem {__version__} from {made_from}."))
    main = tag("main", top, *body)
    whole = join(
        [
            Html("<!doctype html>\n"),
            Html('<html lang="en">'),
            tag("head", *head),
            tag("body", tag("div", main, foot, class_="privem")),
            Html("</html>\n"),
        ]
    )
    return str(whole)


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page, whole or not at all."""
    with write_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def framed(text: str) -> str:
    """A page within another one."""
    return str(tag("iframe", srcdoc=text, sandbox="", title="report", width="100%", height="640"))


def short_form(model: Any) -> str:
    """What a notebook shows of a fitted model."""
    return str(
        join([tag("style", Html(STYLE)), tag("div", sections.short(model), class_="privem")])
    )
