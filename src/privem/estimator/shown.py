"""What people look at of a fitted model: its picture, and its short form in notebooks.

A model says here what can be shown of it; how that is drawn and worded is in ``report/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..report.drawn import draw_from
from ..report.shapes import Shapes
from .uncertainty import WithUncertainty
from .warnings import alike

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


class Shown(WithUncertainty):
    """Abstract base of estimators that can be looked at."""

    # What its components are called.
    _parts: ClassVar[str] = "components"
    # Attributes of which it matters whether they are zero, a number for each column in each row.
    _effects: ClassVar[tuple[str, ...]] = ()

    @property
    def _apart(self) -> Sequence[str]:
        """Attributes by which components differ: arrays with a row for each, or lists of such.

        Weights are not among them: two components that differ by their weights alone are one.
        """
        return ()

    def _near(self) -> NDArray[np.bool_] | None:
        """Which pairs of components, (K, K), are near enough to be asked whether they differ."""
        return None

    def _shapes(self) -> Shapes | None:
        """Where components lie in the space of the columns, if they do."""
        return None

    def _alike(self) -> list[tuple[int, int]]:
        """Pairs of components that differ by no more than the noise of a private fit."""
        return alike(self, self.uncertainty()) if self._apart else []

    def plot(
        self, columns: Sequence[str | int] | None = None, *, n_samples: int = 20_000
    ) -> Figure:
        """Draw the model over pairs of columns: its components, and records drawn from it.

        Nothing but the fitted model is used: of a private model, the picture is as private.

        Parameters
        ----------
        columns : sequence of str or int, optional
            Which columns, at least two; every pair of them is drawn. By default up to four: those
            in which components are furthest apart or, without components, which depend most.
        n_samples : int, default=20_000
            How many records are drawn, from models that are a distribution.

        Returns
        -------
        matplotlib.figure.Figure
            To show or save: ``figure.savefig("model.png")``. Needs ``pip install "privem[plot]"``.

        Examples
        --------
        >>> import numpy as np
        >>> from privem import GaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> figure = GaussianMixture(bounds=4.0).fit(X).plot(columns=[0, 2])
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('x0', 'x2')
        """
        from ..report.pairs import plot_pairs

        check_is_fitted(self)
        return plot_pairs(self, columns, draw_from(self, n_samples))

    @property
    def _repr_html_(self) -> Any:
        """The short form, once it is fitted; before, as scikit-learn shows estimators."""
        usual = super()._repr_html_  # there is none where scikit-learn's display is text
        return self._short_form if is_fitted(self) else usual

    def _repr_mimebundle_(self, **more: Any) -> Any:
        """The same, for notebooks that ask for more than one form."""
        bundle = super()._repr_mimebundle_(**more)
        if "text/html" in bundle and is_fitted(self):
            bundle["text/html"] = self._short_form()
        return bundle

    def _short_form(self) -> str:
        from ..report.page import short_form

        return short_form(self)


def is_fitted(model: Any) -> bool:
    """Whether a model is fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True
