"""Synthetic records as a table with the names, the types and the bounds of the data fitted.

All of it is arithmetic on a fitted model and on what is public beside it (names, declared types,
bounds): post-processing, which costs no privacy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data.frame import FrameKind
from ..linalg import Array
from ..parameters import is_ball

# For the roundings of a projection onto a ball.
_INSIDE = 1 - 2.0**-40
# Numbers that no type and no resolution is declared for have so many digits of the standard
# deviation of the narrowest component. A model says nothing about finer ones: such a component is
# smooth, and noise changes its deviation by more than a thousandth. Rounding adds a part in 10^7
# to its variance at most. Digits that follow from the range alone would lose narrow components in
# wide bounds.
_DIGITS = 4


@dataclass(frozen=True)
class Columns:
    """What is publicly known of the columns: how numbers become a table.

    The type always holds; the bounds hold wherever the type has a value between them.

    Examples
    --------
    >>> columns = Columns(["age", "height"], ["uint8", "float64"], (np.zeros(2), np.full(2, 110.0)))
    >>> columns.table(np.array([[31.7, 1.7], [130.0, -2.0]]))
    {'age': array([ 32, 110], dtype=uint8), 'height': array([1.7, 0. ])}
    """

    names: Sequence[str]
    types: Sequence[str]
    bounds: tuple[Array, Array] | None = None
    radius: float | None = None
    """Of the ball about the origin that holds all records, if the bounds are one."""
    decimals: Sequence[int | None] | None = None
    """To how many decimals the numbers of each column are rounded; ``None`` are not."""

    def table(self, drawn: Array, cuts: Array | float = 0.5) -> dict[str, NDArray[Any]]:
        """Columns by name, of rows (n, d). Booleans are true above ``cuts``, of the same shape."""
        cuts = np.broadcast_to(np.asarray(cuts), drawn.shape)
        values = np.empty_like(drawn)
        for j, kind in enumerate(self.types):
            match np.dtype(kind).kind:
                case "b":
                    column = (drawn[:, j] > cuts[:, j]).astype(np.float64)
                case "f":
                    column = _rounded(drawn[:, j], self._decimals(j))
                case _:
                    column = np.rint(drawn[:, j])
            low, high = _limits(kind, *self._bounds(j), self._decimals(j))
            # fmax: should arithmetic on huge parameters give NaN, it becomes the lower bound.
            values[:, j] = np.minimum(np.fmax(column, low), high).astype(kind)
        if self.radius is not None:
            self._pull_in(values, self.radius)
        return {
            name: values[:, j].astype(kind)
            for j, (name, kind) in enumerate(zip(self.names, self.types, strict=True))
        }

    def _bounds(self, j: int) -> tuple[float, float]:
        if self.bounds is None:
            return -np.inf, np.inf
        return float(self.bounds[0][j]), float(self.bounds[1][j])

    def _decimals(self, j: int) -> int | None:
        return None if self.decimals is None else self.decimals[j]

    def _pull_in(self, values: Array, radius: float) -> None:
        """Shrink rows outside the ball; every value towards zero, where any type can follow."""
        norm = np.linalg.norm(values / radius, axis=1)
        outside = norm > 1
        rows = values[outside] / norm[outside, None] * _INSIDE
        for j, kind in enumerate(self.types):
            if np.dtype(kind).kind == "f":
                rows[:, j] = _towards_zero(rows[:, j], self._decimals(j), kind)
            else:
                rows[:, j] = np.trunc(rows[:, j])
        values[outside] = rows


def decimals_for(deviation: float) -> int | None:
    """So many decimals that a standard deviation has four digits; ``None`` if it is none.

    Examples
    --------
    >>> decimals_for(9.3), decimals_for(0.0012), decimals_for(25_000.0)
    (3, 6, -1)
    """
    if not 1e-100 < deviation < 1e100:
        return None
    return _DIGITS - 1 - math.floor(math.log10(deviation))


def _rounded(values: Array, decimals: int | None) -> Array:
    """Values to so many decimals; those that are too large to have as many stay."""
    if decimals is None:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.abs(values) < 2.0**53 / 10.0**decimals, values.round(decimals), values)


def _towards_zero(values: Array, decimals: int | None, kind: str) -> Array:
    """Values of a type, to so many decimals, that are no further from zero."""
    near = _rounded(values, decimals).astype(kind)
    if decimals is not None:
        step = np.copysign(10.0**-decimals, values)
        nearer = _rounded(near - step, decimals).astype(kind)
        near = np.where(np.abs(near) > np.abs(values), nearer, near)
    grown = np.abs(near) > np.abs(values)
    return np.where(grown, np.nextafter(near, np.zeros(1, kind)), near)


def _limits(kind: str, low: float, high: float, decimals: int | None = None) -> tuple[float, float]:
    """The smallest and the largest value of a type between two bounds, as exact doubles.

    Of so many decimals, if there are such values between them.
    """
    least, most = _range(kind)
    low, high = max(low, least), min(high, most)
    if decimals is not None and np.dtype(kind).kind == "f":
        inner = _up_to(kind, low, decimals), -_up_to(kind, -high, decimals)
        if low <= inner[0] <= inner[1] <= high:
            return inner
    inner = _up(kind, low), -_up(kind, -high)
    if inner[0] <= inner[1]:
        return inner
    # No value of the type lies between the bounds: the nearest to their middle.
    middle = float(np.clip(low / 2 + high / 2, least, most))
    nearest = float(np.float32(middle)) if kind == "float32" else float(np.rint(middle))
    return nearest, nearest


def _range(kind: str) -> tuple[float, float]:
    """The smallest and the largest finite value of a type that a double can hold."""
    match np.dtype(kind).kind:
        case "b":
            return 0.0, 1.0
        case "f":
            most = float(np.finfo(kind).max)
            return -most, most
    info = np.iinfo(kind)
    most = float(info.max)
    # 2^63 - 1 is no double: rounded up, it would wrap round to the smallest integer.
    return float(info.min), most if int(most) <= info.max else float(np.nextafter(most, 0))


def _up_to(kind: str, value: float, decimals: int) -> float:
    """The smallest value of a type and of so many decimals that is not below ``value``."""
    near = _rounded(np.array([value]), decimals)
    if float(near.astype(kind)[0]) < value:
        near = _rounded(near + 10.0**-decimals, decimals)
    return float(near.astype(kind)[0])


def _up(kind: str, value: float) -> float:
    """The smallest value of a type (or minus that, which is one as well) not below ``value``."""
    if kind == "float64":
        return value
    if kind != "float32":
        return float(np.ceil(value))
    with np.errstate(over="ignore"):  # beyond the largest is infinity
        single = np.float32(value)
        # As doubles: NumPy would compare a single with a Python number in single precision.
        if float(single) < value:
            single = np.nextafter(single, np.float32(np.inf))
    return float(single)


class Synthetic:
    """What estimators with a ``sample`` method share: the same as a data frame."""

    if TYPE_CHECKING:
        random_state: Any
        bounds_: Any
        n_features_in_: int

        def _names(self, prefix: str = "") -> list[str]:
            """Of the columns."""

        def _kind(self, library: str | None) -> FrameKind:
            """What kind of frame to return."""

        def sample(self, n_samples: int = 1) -> Any:
            """Rows and the component of each."""

        def _marginals(self) -> tuple[Array, Array]:
            """Mean and standard deviation of each feature in each component, (K, d) both."""

    def _without_background(self) -> Self:
        """The same model without a background, which most have not."""
        return self

    def _draws(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        """Records, and the component of each; that of the background is -1."""
        twin = copy.copy(self)
        twin.random_state = rng
        X, component = twin.sample(n_samples)
        return X, component

    def sample_frame(
        self, n_samples: int = 1, library: str | None = None, *, background: bool = True
    ) -> Any:
        """Draw records as a data frame with the names, types and bounds of the data fitted.

        Types are those declared by the frame, array or Parquet file that was fitted; CSV files
        and lists declare none, and give ``float64`` (or what ``read_file(path, types=...)`` says).
        Bounds are those of a private fit, ``bounds_``; an exact fit has none.

        - Floating-point values have four digits of the standard deviation of the narrowest
          component: a model says nothing about finer ones. Those outside the bounds are pulled
          inside.
        - Integers are rounded to the nearest one within the bounds and the type's range.
        - A boolean is true where the drawn number exceeds the quantile of its component that makes
          the share of true ones the component's mean. (Above one half would lose rare ones: at a
          mean of 0.02, that is 3 in 10,000.)
        - Categories are those declared, of the type that their column was declared as; text stays
          text.
        - With a ball as bounds, records outside are shrunk towards the origin; integers and
          booleans then towards zero.

        Parameters
        ----------
        n_samples : int, default=1
            How many records.
        library : {"polars", "pandas"}, optional
            Which kind of frame. By default that which was fitted; polars, if it was an array or a
            file, or if the model was loaded.
        background : bool, default=True
            Whether to draw from the background too, of a model that has one.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            In random order. Columns without a name are called ``x0``, ``x1``, ...

        Notes
        -----
        Drawn from a private model, the frame is as private as the model is; from an exact one
        (``epsilon=None``) it is not private at all.

        Examples
        --------
        >>> import numpy as np, polars as pl
        >>> from privem import GaussianMixture
        >>> rng = np.random.default_rng(0)
        >>> people = pl.DataFrame(
        ...     {"age": rng.integers(18, 90, 500), "member": rng.random(500) < 0.2}
        ... )
        >>> model = GaussianMixture(epsilon=1.0, bounds=([0, 0], [110, 1])).fit(people)
        >>> synthetic = model.sample_frame(1000)
        >>> synthetic.schema == people.schema
        True
        >>> bool(synthetic["age"].is_between(0, 110).all())
        True
        """
        check_is_fitted(self)
        kind = self._kind(library)
        names = self._names("x")
        if len(set(names)) < len(names):
            raise ValueError(f"a column is named twice in {', '.join(names)}")
        # One generator for all of it: with a fixed seed, order and values must not repeat its bits.
        model = self if background else self._without_background()
        drawn = model._drawn(n_samples, check_random_state(self.random_state))
        return kind.frame(drawn, self._categories())

    def _categories(self) -> dict[str, Any]:
        """Of columns of categories, all that there are."""
        return {}

    def _drawn(self, n_samples: int, rng: Any) -> dict[str, Any]:
        """Columns of drawn records by name, in random order."""
        X, component = self._draws(n_samples, rng)
        order = rng.permutation(len(X))
        means, deviations = self._marginals()
        # In the background, which comes last, as many are true as false.
        cuts = np.vstack([_cuts(means, deviations), np.full(self.n_features_in_, 0.5)])
        decimals = [decimals_for(float(least)) for least in deviations.min(axis=0)]
        columns = replace(self._columns(), decimals=decimals)
        return columns.table(X[order], cuts[component[order]])

    def _columns(self) -> Columns:
        # Models saved before types were recorded have none.
        types = getattr(self, "feature_types_in_", ["float64"] * self.n_features_in_)
        found = Columns(self._names("x"), types)
        if not hasattr(self, "bounds_"):
            return found
        given: Any = getattr(self, "bounds", None)
        radius = float(given) if is_ball(given) else None
        return replace(found, bounds=self.bounds_, radius=radius)


def _cuts(means: Array, deviations: Array) -> Array:
    """Above which a drawn number is true: the share above is the mean, a share of true ones."""
    share = np.clip(means, 0.0, 1.0)
    with np.errstate(invalid="ignore"):  # a deviation of zero times an infinite quantile
        cuts = means + deviations * ndtri(1 - share)
    return np.where(share == 0, np.inf, np.where(share == 1, -np.inf, cuts))
