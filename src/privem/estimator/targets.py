"""Opening rows that have a target: (X, y) become rows whose last column is y."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from ..core import Rows
from ..data import ArrayRows, FrameRows, is_rows, is_table, read_file
from ..data.array import as_numbers, unmasked
from ..data.frame import is_frame
from ..data.joined import JoinedRows
from ..data.owned import group_column
from ..federation import Federation
from ..tree import Array
from .base import Estimator
from .opening import private_rows, unchecked

__all__ = ["TargetEstimator"]


class TargetEstimator(Estimator):
    """Abstract base of estimators with a target. Holds no algorithm.

    ``n_features_in_``, ``feature_names_in_`` and ``feature_types_in_`` are those of X alone;
    ``target_name_in_`` is the target's, if it has one.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    # Whether NaN in X means missing, and passes.
    _missing: ClassVar[bool] = False

    def _open_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, finite: bool) -> Rows:
        return self._open_joined(X, y, sample_weight, finite, self._missing, groups)

    def _open_joined(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        finite: bool = True,
        missing: bool = False,
        groups: Any = None,
    ) -> Rows:
        """Rows to fit on, the target as their last column.

        Parameters
        ----------
        X, y
            Arrays, or a frame and an array; or a frame or a file and the name of its target column;
            or rows opened before, whose last column is the target (y is then ``None``).
        finite : bool
            As in ``Estimator._open``: refuse values that are not; else only NaN.
        missing : bool
            NaN in X (never in y) means missing, and passes.
        groups
            Matters here where it names a column of a file or a frame, which is then no feature.
        """
        if is_table(X):
            return self._open_file(X, y, sample_weight, finite, missing, groups)
        if is_rows(X):
            if y is not None and isinstance(X, Federation):
                raise TypeError("targets are with the parties, Party(rows, name, y): y=None here")
            if y is not None:
                raise TypeError("rows opened before carry their target as the last column: y=None")
            rows = self._open(X, None, sample_weight, groups, finite, missing)
            self._leave_target_out(rows)
            return rows
        X, y = _by_name(X, y)
        target = check_target(y)
        rows = self._open_array(X, sample_weight, groups, True, finite, missing)
        assert isinstance(rows, ArrayRows | FrameRows)
        check_consistent_length(X, target)
        weight = rows.weight
        self._name_target(getattr(y, "name", None))
        if finite and not np.isfinite(target).all():
            raise ValueError("Input y contains NaN or infinity; remove or impute such rows first")
        if np.isnan(target).any():
            raise ValueError("Input y contains NaN: remove or impute missing values first")
        return JoinedRows(replace(rows, weight=None), target, weight, _name(y))

    def _open_file(
        self, X: Any, y: Any, sample_weight: Any, finite: bool, missing: bool, groups: Any
    ) -> Rows:
        if not isinstance(y, str):
            raise TypeError(
                "the target of a file is one of its columns: give its name as y (a string)"
            )
        who = group_column(X, groups)
        joined = read_file(X, weight=sample_weight, groups=who, target=y)
        rows: Rows = joined
        if not finite:
            rows = private_rows(joined, True, missing)
        elif missing:
            rows = unchecked(joined)
        self._leave_target_out(rows)
        return rows

    def _reopen_joined(self, X: Any, y: Any, missing: bool = False) -> Rows:
        """Rows with their targets, to evaluate: the same features as in ``fit``."""
        if is_table(X):
            if not isinstance(y, str):
                raise TypeError("the target of a file is one of its columns: give its name as y")
            rows = read_file(X, columns=self._file_columns(X), target=y)
            return unchecked(rows) if missing else rows
        if is_rows(X):
            if y is not None:
                raise TypeError("rows opened before carry their target as the last column: y=None")
            if X.n_features != self.n_features_in_ + 1:
                raise ValueError(
                    f"X has {X.n_features - 1} features and a target, but {type(self).__name__} is "
                    f"expecting {self.n_features_in_} features as input"
                )
            self._refuse_other_names(None if X.names is None else X.names[:-1])
            return unchecked(X) if missing else X
        X, y = _by_name(X, y)
        target = check_target(y)
        rows = self._open_array(X, None, None, reset=False, missing=missing)
        assert isinstance(rows, ArrayRows | FrameRows)
        check_consistent_length(X, target)
        return JoinedRows(rows, target, None, _name(y))

    def _leave_target_out(self, rows: Rows) -> None:
        """Record the features, which are all columns but the last."""
        self.n_features_in_ = rows.n_features - 1
        if self.n_features_in_ < 1:
            raise ValueError("there is no column besides the target")
        if rows.names is not None:
            self.feature_names_in_ = np.asarray(rows.names[:-1], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._header = getattr(rows, "header", None)
        types = getattr(rows, "types", None) or ["float64"] * rows.n_features
        self.feature_types_in_ = list(types[:-1])
        self._name_target(None if rows.names is None else rows.names[-1])

    def _name_target(self, name: Any) -> None:
        if name is not None:
            self.target_name_in_ = str(name)
        elif hasattr(self, "target_name_in_"):
            del self.target_name_in_


def check_target(y: Any) -> Array:
    """A target as one number per record; raises for what is not."""
    if y is None:
        raise ValueError(
            "this estimator requires y to be passed, but the target y is None; for a frame or a "
            "file, y may be the name of its target column"
        )
    if isinstance(y, str):
        raise TypeError("y names a column, which arrays do not have; pass the values")
    target = column_or_1d(unmasked(y), warn=True)
    try:
        return as_numbers(target)
    except ValueError:
        raise ValueError(f"y must be numbers, got values of type {target.dtype}") from None


def _by_name(X: Any, y: Any) -> tuple[Any, Any]:
    """A frame and the name of its target as features and values; all else as it is."""
    if not (is_frame(X) and isinstance(y, str)):
        return X, y
    names = list(X.columns)
    if y not in names:
        raise ValueError(
            f"y names a column {y!r}, and X has none; it has {', '.join(map(str, names))}"
        )
    rest = X.drop(y) if type(X).__module__.startswith("polars") else X.drop(columns=[y])
    return rest, X[y]


def _name(y: Any) -> str:
    return str(getattr(y, "name", None) or "target")
