"""Numbers for people: to the digits that mean something, with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Numbers with more decimal places are written with an exponent.
_MOST_PLACES = 9


def rounded(value: float, deviation: float, digits: int = 2) -> tuple[str, str]:
    """A number and the deviation of its noise, to so many digits of the noise; more mean nothing.

    Examples
    --------
    >>> rounded(48353.91, 1743.0), rounded(-0.123456, 0.00456)
    (('48,400', '1,700'), ('-0.1235', '0.0046'))
    >>> rounded(1.23456e-7, 4e-9), rounded(0.5, 0.0)
    (('1.23e-07', '4e-09'), ('0.5', '0'))
    """
    if not (math.isfinite(deviation) and 0 < deviation < 1e15 and abs(value) < 1e15):
        return f"{value:.4g}", f"{deviation:.{digits}g}"
    places = digits - 1 - math.floor(math.log10(deviation))
    if places > _MOST_PLACES:
        many = digits + math.floor(math.log10(max(abs(value) / deviation, 1.0)))
        return f"{value:.{many}g}", f"{deviation:.{digits}g}"
    # Zero is added to it lest it be "-0".
    one, other = (f"{round(x, places) + 0.0:,.{max(places, 0)}f}" for x in (value, deviation))
    return one, other


def with_error(value: float, error: float) -> str:
    """A number and its standard error; one that noise has not reached is alone.

    Examples
    --------
    >>> with_error(1.23456, 0.0123), with_error(0.5, 0.0)
    ('1.235 ± 0.012', '0.5')
    """
    return " ± ".join(rounded(value, error)) if error else f"{value:.4g}"


def cells_of(values: Sequence[float], errors: Sequence[float] | None = None) -> list[str]:
    """Numbers of one column, to the digits that mean something.

    Where nothing is known of that, what is nothing beside the largest of them is 0.
    """
    if errors is not None:
        return [with_error(value, error) for value, error in zip(values, errors, strict=False)]
    least = 1e-12 * max(map(abs, values), default=0.0)
    return [f"{0.0 if abs(value) < least else value:.4g}" for value in values]
