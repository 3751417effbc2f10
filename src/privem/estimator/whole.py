"""What holds for the ``fit`` of every estimator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .advice import advise, at_end
from .parameters import check_all_sizes

__all__ = ["whole"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def whole(fit: Fit) -> Fit:
    """A ``fit`` that sets all of its attributes or, if it raises, none.

    Otherwise a refit that fails could leave the last fit's parameters and statement beside the
    columns of other data. A private fit first refuses numbers that its sums cannot be computed
    with. Warnings about the result come when all of it is set. ``Estimator`` wraps the ``fit`` of
    every class in this.
    """

    @wraps(fit)
    def fitted(self: Any, *args: Any, **more: Any) -> Any:
        if getattr(self, "epsilon", None) is not None:
            check_all_sizes(self.get_params(deep=False))
        before = dict(vars(self))
        try:
            with at_end() as waiting:
                result = fit(self, *args, **more)
        except BaseException:
            # All but the lineage: what was spent before the failure stays counted.
            before |= {name: vars(self)[name] for name in vars(self) if name == "_lineage"}
            vars(self).clear()
            vars(self).update(before)
            raise
        for message, category in waiting:
            advise(message, category)
        return result

    return fitted  # type: ignore[return-value]
