"""A fit that fails leaves its estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["whole"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def whole(fit: Fit) -> Fit:
    """A ``fit`` that sets all of its attributes or, if it raises, none.

    Otherwise a refit that fails could leave the last fit's parameters and statement beside the
    columns of other data. ``Estimator`` wraps the ``fit`` of every class in this.
    """

    @wraps(fit)
    def fitted(self: Any, *args: Any, **more: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **more)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return fitted  # type: ignore[return-value]
