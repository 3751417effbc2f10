"""Small pictures as inline SVG: no library, no network, sharp on paper."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .html import Html, clean, join, tag
from .numbers import rounded
from .shapes import COLOURS, Array, Pair, Shapes

# Size of a panel, and the edges of what is drawn in it: left, top, right, bottom.
_WIDTH, _HEIGHT = 300, 232
_LEFT, _TOP, _RIGHT, _BOTTOM = 46.0, 24.0, 294.0, 196.0
# How wide a digit is, at most.
_DIGIT = 7.2
# Records that a panel shows.
_POINTS = 700
# A row of bars.
_ROW, _LABEL, _BAR = 20, 96.0, 150.0
ACCENT = "#0072B2"


@dataclass(frozen=True)
class Axis:
    """Numbers along one side of a panel.

    Examples
    --------
    >>> Axis(0.0, 10.0, 50.0, 250.0)(5.0), Axis(0.0, 10.0, 0, 1).ticks(4)
    (150.0, [0.0, 2.5, 5.0, 7.5, 10.0])
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a number is on the page."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round numbers, about so many."""
        raw = (self.high - self.low) / most
        if not (math.isfinite(raw) and raw > 0):
            return []
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [(first + i) * step for i in range(100) if (first + i) * step <= self.high + 1e-12]


def picture(width: float, height: float, label: str, *inside: str) -> Html:
    """A whole SVG; ``label`` says in words what it shows."""
    box = f"0 0 {width:g} {height:g}"
    return tag("svg", *inside, viewBox=box, role="img", aria_label=label, width=f"{width:g}")


def text(x: float, y: float, said: str, **how: str) -> Html:
    """Words at a place; a name's own direction does not turn it round."""
    return tag("text", f"\u2068{said}\u2069", x=f"{x:.1f}", y=f"{y:.1f}", **how)


def fitting(said: str, width: float) -> str:
    """As much of a text as fits: letters are about seven wide, and those of East Asia twelve.

    Examples
    --------
    >>> fitting("systolic_bp", 280), fitting("systolic_bp", 50)
    ('systolic_bp', 'systo…')
    """
    shown, used = clean(said), 0.0
    for i, letter in enumerate(shown):
        used += 12.0 if unicodedata.east_asian_width(letter) in "WF" else 7.2
        if used > width:
            return shown[: max(i - 1, 1)] + "…"
    return shown


def scatter(
    names: tuple[str, str],
    at: Pair,
    edges: tuple[tuple[float, float], tuple[float, float]],
    records: tuple[Array, Array] | None,
    shapes: Shapes | None,
) -> Html:
    """Records drawn from a model over two columns, and the model's components as ellipses."""
    x = Axis(*edges[0], _LEFT, _RIGHT)
    y = Axis(*edges[1], _BOTTOM, _TOP)
    parts = [_frame(x, y, *names)]
    said = f"{names[1]} by {names[0]}"
    if records is not None:
        parts.append(_points(x, y, *records))
        said += ": records drawn from the model"
    if shapes is not None:
        inside = [_component(shapes, k, at, x, y) for k in shapes.shown]
        parts.append(tag("svg", *inside, **_view()))
        said += ", and its components"
    return picture(_WIDTH, _HEIGHT, said, *parts)


def _view() -> dict[str, str]:
    """The inner picture that cuts off what lies outside of the axes."""
    width, height = _RIGHT - _LEFT, _BOTTOM - _TOP
    box = f"{_LEFT:g} {_TOP:g} {width:g} {height:g}"
    size = {"width": f"{width:g}", "height": f"{height:g}"}
    return {"x": f"{_LEFT:g}", "y": f"{_TOP:g}", "viewBox": box, **size}


def _frame(x: Axis, y: Axis, below: str, above: str) -> Html:
    """Axes with their numbers and names; that of the vertical one stands above it."""
    lines = f"M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"
    parts = [tag("path", d=lines, class_="axis")]
    for tick in x.ticks(4):
        parts.append(tag("path", d=f"M{x(tick):.1f} {_BOTTOM}v4", class_="axis"))
        said = _tick(tick)
        # At the edge it moves inwards, rather than lose a digit.
        middle = min(x(tick), _WIDTH - _DIGIT * len(said) / 2)
        parts.append(text(middle, _BOTTOM + 15, said, text_anchor="middle"))
    for tick in y.ticks(4):
        parts.append(tag("path", d=f"M{_LEFT} {y(tick):.1f}h-4", class_="axis"))
        parts.append(text(_LEFT - 6, y(tick) + 3.5, _tick(tick), text_anchor="end"))
    parts.append(text(_RIGHT, _BOTTOM + 30, fitting(below, 205), text_anchor="end", class_="name"))
    parts.append(text(2, 12, fitting(above, 240), class_="name"))
    return join(parts)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"


def _points(x: Axis, y: Axis, across: Array, up: Array) -> Html:
    seen = np.isfinite(across) & np.isfinite(up)
    seen &= (across >= x.low) & (across <= x.high) & (up >= y.low) & (up <= y.high)
    places = zip(across[seen][:_POINTS], up[seen][:_POINTS], strict=True)
    dots = "".join(f"M{x(float(a)):.1f} {y(float(b)):.1f}h0" for a, b in places)
    return tag("path", d=dots, class_="points")


def _component(shapes: Shapes, k: int, at: Pair, x: Axis, y: Axis) -> Html:
    colour = COLOURS[k % len(COLOURS)]
    parts = []
    for deviations, dashes in ((1.0, None), (2.0, "5 3")) if shapes.covariance is not None else ():
        points = shapes.ring(k, at, deviations)
        line = "L".join(f"{x(float(a)):.1f} {y(float(b)):.1f}" for a, b in points)
        parts.append(tag("path", d=f"M{line}Z", class_="halo"))
        parts.append(tag("path", d=f"M{line}Z", class_="ring", stroke=colour, **_dashed(dashes)))
    middle = x(float(shapes.centres[k, at[0]])), y(float(shapes.centres[k, at[1]]))
    where = {"cx": f"{middle[0]:.1f}", "cy": f"{middle[1]:.1f}"}
    # White on these colours would be too faint for small print: the number is in ink on white.
    parts.append(tag("circle", **where, r="7", fill="#fff", stroke=colour, stroke_width="2"))
    number = text(middle[0], middle[1] + 3.5, str(k), text_anchor="middle", class_="number")
    return join([*parts, number])


def _dashed(dashes: str | None) -> dict[str, str]:
    return {} if dashes is None else {"stroke_dasharray": dashes}


def histogram(title: str, edges: Array, shares: Sequence[Array], labels: Sequence[str]) -> Html:
    """How a column of numbers is spread: filled bars of the first, lines of the others.

    Parameters
    ----------
    title : str
        The column.
    edges : ndarray of shape (bins + 1,)
    shares : sequence of ndarray of shape (bins,)
    labels : sequence of str
        At the left and the right end.
    """
    bottom, top = 108.0, 24.0
    x = Axis(float(edges[0]), float(edges[-1]), 4.0, 296.0)
    y = Axis(0.0, max(max(float(each.max()) for each in shares), 1e-300), bottom, top)
    parts = [text(4, 12, fitting(title, 240), class_="name")]
    for number, each in enumerate(shares):
        line = f"M4 {bottom}" + "".join(
            f"L{x(float(a)):.1f} {y(float(v)):.1f}H{x(float(b)):.1f}"
            for a, b, v in zip(edges[:-1], edges[1:], each, strict=True)
        )
        kind = {"class_": "fill"} if number == 0 else {"class_": "line"}
        parts.append(tag("path", d=f"{line}L296 {bottom}Z", **kind))
    parts.append(tag("path", d=f"M4 {bottom}H296", class_="axis"))
    parts.append(text(4, bottom + 15, labels[0]))
    parts.append(text(296, bottom + 15, labels[1], text_anchor="end"))
    return picture(300, 130, f"how {title} is spread in synthetic records", *parts)


def bars(title: str, rows: Sequence[tuple[str, Sequence[float]]]) -> Html:
    """Shares of categories: a bar for each, and a mark where the others' bars would end."""
    most = max((max(values) for _, values in rows), default=0.0) or 1.0
    parts = [text(4, 12, fitting(title, 240), class_="name")]
    for i, (label, values) in enumerate(rows):
        at = 20 + i * _ROW
        parts.append(text(_LABEL - 6, at + 13, fitting(label, _LABEL - 8), text_anchor="end"))
        wide = _BAR * values[0] / most
        parts.append(_bar(_LABEL, at + 3, wide, class_="bar"))
        for value in values[1:]:
            end = _LABEL + _BAR * value / most
            parts.append(tag("path", d=f"M{end:.1f} {at + 1}v16", class_="mark"))
        parts.append(text(_LABEL + _BAR * max(values) / most + 6, at + 13, _percent(values[0])))
    height = max(130, 26 + _ROW * len(rows))
    return picture(300, height, f"shares of {title} in synthetic records", *parts)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def _bar(x: float, y: float, width: float, height: float = 13, **how: str) -> Html:
    size = {"width": f"{max(width, 0.8):.1f}", "height": f"{height:g}"}
    return tag("rect", x=f"{x:.1f}", y=f"{y:g}", **size, **how)


def effects(title: str, rows: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> Html:
    """Numbers with two standard errors on either side, about zero: one line for each name.

    ``rows``: a name, and a value and its standard error for each component.
    """
    ends = [v + s * 2 * e for _, each in rows for v, e in each for s in (-1, 1)]
    finite = [end for end in ends if math.isfinite(end) and abs(end) < 1e12]
    low, high = min([*finite, 0.0]), max([*finite, 0.0])
    air = 0.04 * (high - low) or 1.0
    x = Axis(low - air, high + air, 130.0, 480.0)
    step = 9
    heights = [max(_ROW, step * len(each) + 8) for _, each in rows]
    total = 8 + sum(heights)
    parts = [tag("path", d=f"M{x(0.0):.1f} 4V{total}", class_="axis")]
    at = 8.0
    for (label, each), height in zip(rows, heights, strict=True):
        parts.append(text(122, at + height / 2 + 3.5, fitting(label, 118), text_anchor="end"))
        for k, (value, error) in enumerate(each):
            line = at + height / 2 + step * (k - (len(each) - 1) / 2)
            colour = COLOURS[k % len(COLOURS)] if len(each) > 1 else ACCENT
            left, right = (min(max(x(value + s * 2 * error), 130), 480) for s in (-1, 1))
            span = f"M{left:.1f} {line:.1f}H{right:.1f}"
            parts.append(tag("path", d=span, stroke=colour, stroke_width="1.5"))
            where = {"cx": f"{x(value):.1f}", "cy": f"{line:.1f}", "r": "3.2"}
            parts.append(tag("circle", **where, fill=colour))
        at += height
    for tick in x.ticks(5):
        parts.append(text(x(tick), total + 15, _tick(tick), text_anchor="middle"))
    said = ", ".join(
        f"{label} {' and '.join(rounded(v, e)[0] for v, e in each)}" for label, each in rows[:12]
    )
    return picture(490, total + 22, f"{title}: {said}", *parts)


def stack(parts: Sequence[tuple[str, float]]) -> Html:
    """One bar cut into shares, each in a shade of its own, with numbers for the table below."""
    shades = ("#0072B2", "#8ab8d6", "#3f3f46", "#b9bec6", "#56B4E9", "#6b7280")
    drawn, at = [], 0.0
    for i, (_, share) in enumerate(parts):
        wide = 640 * share
        drawn.append(_bar(at, 0, wide, 26, fill=shades[i % len(shades)], class_="slice"))
        if wide > 22:
            # Ink or white, whichever can be read on the shade.
            light = i % len(shades) in (1, 3, 4)
            how = {"text_anchor": "middle", "class_": "dark" if light else "light"}
            drawn.append(text(at + wide / 2, 18, str(i + 1), **how))
        at += wide
    said = "; ".join(f"{name} {share:.1%}" for name, share in parts)
    return picture(640, 26, f"parts of the budget: {said}", *drawn)
