"""Pieces of HTML. Text is escaped because it is text: only :class:`Html` goes in as it is."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

# Of a name from the data; what is cut off is said by an ellipsis.
_LONGEST = 80
# A table shows so many rows and columns at once; the rest is folded, and beyond a limit left out.
_ROWS, _FEW, _COLUMNS, _CELLS = 24, 12, 8, 20_000


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *inside: str | None, **attributes: Any) -> Html:
    """An element. Attributes that are ``None`` are left out; ``class_`` is ``class``.

    Examples
    --------
    >>> tag("p", "1 < 2 ", tag("b", "so"), class_="note")
    '<p class="note">1 &lt; 2 <b>so</b></p>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{said}>{join(inside)}</{name}>")


def join(pieces: Iterable[str | None]) -> Html:
    """Pieces one after the other: HTML as it is, text escaped."""
    return Html(
        "".join(
            piece if isinstance(piece, Html) else html.escape(piece)
            for piece in pieces
            if piece is not None
        )
    )


def clean(text: Any, longest: int = _LONGEST) -> str:
    r"""A name as it can be shown: of limited length, and without characters that nobody sees.

    Control characters would break the page, and marks of direction turn round the text beside them.

    Examples
    --------
    >>> clean("age\u202e\x00"), clean("long name", 6)
    ('age��', 'long …')
    """
    shown = "".join("\ufffd" if unicodedata.category(c) in _UNSEEN else c for c in str(text))
    if len(shown) > longest:
        shown = shown[: longest - 1] + "…"
    return _LEFTWARD.sub("\\g<0>\u200e", shown)


_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Words written from right to left. A mark after them keeps what follows, say "[-5, 10]", in order.
_LEFTWARD = re.compile(r"(?:[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+ *)+")


def name(text: Any, longest: int = _LONGEST) -> Html:
    """A name from the data, whose direction does not touch what stands around it."""
    return tag("bdi", clean(text, longest))


def section(title: str, *inside: str | None) -> Html:
    """A section of the page, with a heading and an anchor."""
    anchor = "".join(c if c.isalnum() else "-" for c in title.lower())
    return tag("section", tag("h2", title, id=anchor), *inside)


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Short facts, each with what it is about."""
    rows = [tag("div", tag("dt", key), tag("dd", value)) for key, value in pairs]
    return tag("dl", *rows, class_="facts")


def figure(picture: Html, caption: str | None = None) -> Html:
    """A picture with its caption."""
    return tag("figure", picture, None if caption is None else tag("figcaption", caption))


def folded(summary: str, *inside: str | None) -> Html:
    """Something that opens when it is asked for."""
    return tag("details", tag("summary", summary), *inside)


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    corner: str = "",
) -> Html:
    """A table that stays usable: wide or long ones are cut, and the other pieces are folded.

    Parameters
    ----------
    caption : str
        What it shows.
    columns : sequence of str
        Their headings.
    rows : sequence of (str, sequence of str)
        A heading, and a cell for each column.
    corner : str
        Above the headings of the rows.
    """
    high = len(rows) if len(rows) <= _ROWS else _FEW
    wide = min(len(columns), _COLUMNS)
    kept = rows[: max(high, _CELLS // max(len(columns), 1))]
    pieces = [
        _piece(
            caption,
            columns[left : left + wide],
            [(label, cells[left : left + wide]) for label, cells in part],
            corner,
        )
        for left in range(0, len(columns), max(wide, 1))
        for part in (kept[:high], kept[high:])
        if part
    ]
    first, *others = pieces or [_piece(caption, columns, rows, corner)]
    if not others:
        return first
    more = [
        f"{len(each) - shown:,} more {called}"
        for each, shown, called in ((kept, high, "rows"), (columns, wide, "columns"))
        if len(each) > shown
    ]
    left_out = len(rows) - len(kept)
    unsaid = f" (another {left_out:,} are in the model file)" if left_out else ""
    return join([first, folded(f"{' and '.join(more)}{unsaid}", *others)])


def _piece(
    caption: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], corner: str
) -> Html:
    # An empty corner is no heading.
    first = tag("th", corner, scope="col") if corner else tag("td")
    head = tag("tr", first, *(tag("th", each, scope="col") for each in columns))
    body = [
        tag("tr", tag("th", tag("span", label), scope="row"), *(tag("td", cell) for cell in cells))
        for label, cells in rows
    ]
    how = {"class_": "numbers", "aria_label": caption}
    whole = tag("table", tag("thead", head), tag("tbody", *body), **how)
    # Whoever has no mouse scrolls what has the focus. The caption stays where it is.
    return join(
        [
            tag("p", caption, class_="caption"),
            tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption),
        ]
    )
