"""What every estimator shares: its parameters of privacy, opening rows, saving."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..advice import advise_at_end, few
from ..blocks.region import Region
from ..budget import PrivatePlan, Terms
from ..core import Block, Plan, Release, Rows, Scratch, Source, Stage
from ..data import ArrayRows, FrameRows, LocalSource, is_rows, is_table, read_file
from ..data.array import unmasked
from ..data.checks import refuse_nan, refuse_non_finite
from ..data.frame import is_frame
from ..data.header import Header
from ..data.owned import Owned, group_column, labels_of, length_of
from ..data.persons import split_frame
from ..data.read import has_names, refuse_kind
from ..data.secret import quietly
from ..data.table import People, Table
from ..data.types import TYPES, type_name
from ..em import Fit
from ..federation import Federation
from ..fit import fit
from ..ground import ESTIMATED, Ground, Preamble
from ..parameters import check_int, check_option
from .federated import (
    federated_people,
    open_federation,
    refuse_pure,
    refuse_rows_arguments,
)
from .limits import in_order, region_of
from .lineage import WithLineage
from .opening import crowd, private_rows, unchecked, weights_of, without_values
from .store import save_model
from .unreleased import missing_attribute

T = TypeVar("T")


@dataclass(repr=False, eq=False, kw_only=True)
class Estimator(WithLineage):
    """Abstract base of all estimators, with the parameters of privacy that they share.

    Parameters of an estimator are fields of a dataclass: ``__init__`` sets them and does nothing
    else. :func:`privem.fit.fit` conducts a fit by the methods ``_check_parameters``,
    ``_open_table``, ``_exact_plan``, ``_set_exact``, ``_private_plan`` and ``_set_private``.
    """

    epsilon: float | None = 1.0
    delta: float = 1e-6
    mechanism: str = "auto"
    accountant: str = "auto"
    neighbours: str = "add-remove"
    max_weight: float = 1.0
    n_jobs: int | None = None

    # What a saved model consists of; everything else can be recomputed or belongs to the data.
    _saved: ClassVar[tuple[str, ...]] = ()
    # Those of them without which there is no model.
    _needed: ClassVar[tuple[str, ...]] = ()
    # The ways to release sums, besides "auto", and the kind of noise of each.
    _mechanisms: ClassVar[Mapping[str, str]] = {}
    # What its columns may be.
    _column_types: ClassVar[tuple[str, ...]] = TYPES
    # Whether it takes sparse arrays.
    _sparse: ClassVar[bool] = False
    # Of the CSV file fitted: which of its column names messages may quote.
    _header: Header | None = field(init=False, default=None)
    # Called with each stage and release: the command line hangs its progress bar here.
    _watch: Callable[[Stage, Release[Any]], None] | None = field(init=False, default=None)

    if not TYPE_CHECKING:  # it would hide every misspelt attribute from the type checker

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise is fresh in every private fit, whatever the random_state.
        tags.non_deterministic = self.epsilon is not None
        tags.input_tags.sparse = self._sparse
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the model, privately unless ``epsilon=None``.

        Parameters
        ----------
        X : array, data frame, path or rows
            The records: ``(n_samples, n_features)``, or a ``.npy``, ``.csv`` or ``.parquet`` file
            (or folder of files), what :func:`privem.data.read_file` returns, or a
            :class:`privem.federation.Federation` of parties that keep them.
        y : ignored, or str
            With a path, the name of a column to leave out, such as a label.
        sample_weight : array-like of shape (n_samples,), optional
            How much each record counts; with a path, the name of a column.
        groups : array-like of shape (n_samples,) or str, optional
            Who each record belongs to: a private fit then hides the person. With a frame or a path,
            the name of a column, which is then no feature.

        Returns
        -------
        self
        """
        fit(self, X, y, sample_weight, groups)
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise for parameters that are wrong whatever the data."""

    @abstractmethod
    def _exact_plan(self, table: Any) -> Plan[Any]:
        """The plan of an exact fit."""

    @abstractmethod
    def _set_exact(self, result: Any, table: Any) -> None:
        """Set what an exact fit has found."""

    @abstractmethod
    def _private_plan(self, table: Any, terms: Terms) -> PrivatePlan[Any]:
        """The plan of a private fit."""

    @abstractmethod
    def _set_private(self, result: Any, plan: Any, terms: Terms) -> None:
        """Set what a private fit has found."""

    @property
    def _isotropic(self) -> bool:
        """Whether bounds have one scale for all features."""
        return False

    def _progress(self) -> AbstractContextManager[Any]:
        """What prints progress while a plan runs."""
        return nullcontext()

    @property
    def _local(self) -> bool:
        """Whether noise is added on people's own devices."""
        return getattr(self, "trust", "central") == "local"

    def _terms(self) -> Terms:
        """The terms of privacy, checked.

        Local privacy hides any change of a record, whatever ``neighbours``.
        """
        n_iter = getattr(self, "n_iter", None)
        if n_iter is not None and check_int("n_iter", n_iter, 1) > self.max_iter:
            raise ValueError(
                f"n_iter={n_iter} is above max_iter={self.max_iter}, the most iterations that any "
                "fit may take: raise one or lower the other"
            )
        terms = Terms.check(
            self.epsilon,
            self.delta,
            self.accountant,
            self.neighbours,
            self.mechanism,
            self._mechanisms,
            self.max_weight,
            getattr(self, "max_rows", None),
        )
        region_of(getattr(self, "bounds", None), None, self._isotropic)
        return replace(terms, neighbours="replace-one") if self._local else terms

    def _preamble(self, table: Any, terms: Terms) -> Preamble:
        """Count and region of the features."""
        region = self._region(self.n_features_in_)
        return Preamble.of(terms, table.people, self.n_features_in_, region, self._isotropic)

    def _region(self, d: int) -> Region | None:
        """The region that ``bounds`` means, in the order of the columns."""
        return region_of(self._ordered_bounds(), d, self._isotropic)

    def _target_region(self) -> Region | None:
        """The region that ``target_bounds`` means."""
        try:
            return region_of(self.target_bounds, 1)
        except (TypeError, ValueError) as problem:
            message = str(problem).replace("bounds", "target_bounds", 1)
            raise type(problem)(message) from None

    def _check_trust(self) -> None:
        """Whether ``trust`` goes with ``epsilon``."""
        check_option("trust", self.trust, ("central", "local"))
        if self._local and self.epsilon is None:
            raise ValueError("trust='local' is for private fits: give epsilon")

    def _rng(self) -> np.random.Generator:
        """What ``random_state`` draws."""
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31, size=4))

    def _open(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        finite: bool = True,
        missing: bool | None = None,
    ) -> Rows:
        """Rows to fit on: checks their form, records names, types and number of features.

        ``finite``: refuse values that are not. Without it NaN is refused all the same, before
        anything is spent; what shows up in a later pass is mapped by the query, by a fixed rule.
        ``missing``: of a stream whose last column is a target, whether values of the others may be.
        """
        if is_table(X) or is_rows(X):
            rows = self._open_stream(X, y, sample_weight, groups)
            if not finite:
                rows = private_rows(rows, missing is not None, bool(missing))
            elif missing:
                rows = unchecked(rows)
            self.n_features_in_ = rows.n_features
            if rows.names is not None:
                self.feature_names_in_ = np.asarray(rows.names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            self._header = getattr(rows, "header", None)
            types = getattr(rows, "types", None)
            self.feature_types_in_ = ["float64"] * rows.n_features if types is None else list(types)
            return rows
        return self._open_array(X, sample_weight, groups, reset=True, finite=finite)

    def _open_stream(self, X: Any, y: Any, weight: Any, groups: Any) -> Rows:
        if isinstance(X, Federation):
            return open_federation(self, X, weight, groups)
        if not is_table(X):
            if weight is not None:
                raise TypeError("give the weight when opening the rows: read_file(weight=...)")
            if isinstance(groups, str):
                raise TypeError("name the groups when opening the rows: read_file(groups=...)")
            rows: Rows = X
            return rows
        without = y if isinstance(y, str) else None
        named = group_column(X, groups)
        return read_file(X, weight=weight, without=without, groups=named)

    def _open_array(
        self,
        X: Any,
        weight: Any,
        groups: Any,
        reset: bool,
        finite: bool = True,
        missing: bool = False,
    ) -> Rows:
        rows: Rows
        refuse_kind(X)
        finite = finite and not missing
        if is_frame(X):
            labels = None
            if isinstance(groups, str):
                X, labels = split_frame(X, groups)
                groups = labels
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise ValueError("Found array with 0 sample(s): the frame has no rows")
            rows = FrameRows(X, weights_of(weight, len(X), groups, finite), finite, labels)
        else:
            # What is not finite is refused by ourselves: our error names the row and the column.
            form: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}
            form["accept_sparse"] = "csr" if self._sparse else False
            try:
                # Converting a number to another type may overflow, and say so of one record.
                with nullcontext() if finite else quietly():
                    checked = validate_data(self, unmasked(X), reset=reset, **form)
            except (ValueError, OverflowError) as error:
                if finite:
                    raise
                raise without_values(error) from None
            weight = weights_of(weight, checked.shape[0], groups, finite)
            rows = ArrayRows(checked, weight, self._names())
            if finite:
                names = getattr(self, "feature_names_in_", None)
                for block in rows.blocks(65_536):
                    refuse_non_finite(block.X, block.start, names)
        if not finite and not missing:
            refuse_nan(rows)
        if reset:
            self._header = None
            self._set_types(X, rows)
        return rows

    def _set_types(self, X: Any, rows: Rows) -> None:
        if isinstance(rows, FrameRows):
            self.feature_types_in_ = rows.types
        else:
            # The array's own type, before it became floating-point; a list declares none.
            self.feature_types_in_ = [type_name(getattr(X, "dtype", None))] * rows.n_features

    def _open_table(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Table:
        """The rows of a fit, exact or private, checked; records their columns."""
        private = self.epsilon is not None
        if private:
            refuse_pure(X, self.delta, getattr(self, "max_rows", None))
        rows = self._open_rows(X, y, sample_weight, groups, finite=not private)
        held = not isinstance(rows, Federation)
        if private and getattr(self, "trust", "central") == "local":
            source, people = crowd(rows, groups)
            return Table(rows, people, lambda n_jobs: source)
        if private:
            found, people = self._owned(rows, groups)
            return Table(rows, people, lambda n_jobs: found, held)
        if isinstance(rows, Federation):
            return Table(rows, federated_people(rows), lambda n_jobs: rows, held)
        weighted = getattr(rows, "weight", None) is not None
        people = People("record", length_of(rows), weighted)
        return Table(rows, people, lambda n_jobs: LocalSource(rows, n_jobs))

    def _open_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, finite: bool) -> Rows:
        """Rows to fit on; ``finite`` as in :meth:`_open`."""
        return self._open(X, y, sample_weight, groups, finite)

    def _owned(self, rows: Rows, groups: Any) -> tuple[Source, People]:
        """Opened rows as the source of a private fit, and who they belong to.

        Whose rows they are is read before the first release.
        """
        if isinstance(rows, Federation):
            refuse_rows_arguments(None, groups)
            return rows, federated_people(rows)
        weighted = getattr(rows, "weight", None) is not None
        labels = labels_of(rows, groups)
        if labels is None:
            return LocalSource(rows, self.n_jobs), People("record", length_of(rows), weighted)
        owned = Owned.of(rows, labels, self.max_weight)
        return owned.source(self.n_jobs), People("person", owned.count, weighted)

    def _known(self, plan: Any, terms: Terms) -> dict[str, str]:
        """What a statement says is public, besides numbers and types of columns."""
        region, names = plan.preamble.region, getattr(self, "feature_names_in_", None)
        return {"bounds": ESTIMATED if region is None else region.in_words(names)}

    def _known_bounds(self, names: Sequence[str] | None) -> dict[str, str]:
        """Bounds and, where there is a target, its bounds, each given or estimated."""
        region = self._region(self.n_features_in_)
        known = {"bounds": ESTIMATED if region is None else region.in_words(names)}
        if hasattr(self, "target_bounds"):
            target = self._target_region()
            known["target bounds"] = ESTIMATED if target is None else target.in_words()
        return known

    def _set_converged(self, fit: Fit[Any]) -> None:
        """Set how an exact EM ended; advise if it did not converge."""
        self.n_iter_, self.lower_bound_, self.converged_ = fit.n_iter, fit.objective, fit.converged
        if not fit.converged:
            advise_at_end(
                f"{type(self).__name__} did not converge: increase max_iter or tol",
                ConvergenceWarning,
            )

    def _set_bounds(self, ground: Ground, given: bool) -> None:
        """Set ``bounds_`` from the ground of a private fit; say where none were found."""
        self.bounds_ = ground.region.sides
        if given and not ground.region.ball:
            # As they were given: to unit coordinates and back, they would lose a last digit.
            low, high = (np.broadcast_to(s, ground.region.d) for s in self._ordered_bounds())
            self.bounds_ = (low.astype(np.float64), high.astype(np.float64))
        self._say_found(ground, self._names())

    @staticmethod
    def _say_found(ground: Ground, columns: Sequence[str]) -> None:
        if ground.found is None or ground.found.all():
            return
        lost = [name for name, ok in zip(columns, ground.found, strict=True) if not ok]
        word = "column" if len(lost) == 1 else "columns"
        advise_at_end(
            f"no bounds stood out of the noise for {word} {few(lost)}: (-1, 1) was used; give "
            "bounds=, or use more records or a larger epsilon",
        )

    def _ordered_bounds(self) -> Any:
        """``bounds``, by position also where they were given by name."""
        return in_order(self.bounds, getattr(self, "feature_names_in_", None))

    def _known_types(self) -> dict[str, str]:
        """What a statement says of the columns' types: saved with the model, they are public."""
        kinds = set(self.feature_types_in_)
        if kinds == {"float64"}:  # which is what columns are that declare nothing
            return {}
        each = f"all {kinds.pop()}" if len(kinds) == 1 else ", ".join(self.feature_types_in_)
        return {"column types": each}

    def _names(self) -> list[str]:
        """A name for each column, made up where there is none."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        return [str(j) for j in range(self.n_features_in_)]

    def _called(self) -> list[str]:
        """A name for each column in messages: its number, if nobody has confirmed the header."""
        return [
            name if self._header is None or self._header.quotes(name) else f"number {j + 1}"
            for j, name in enumerate(self._names())
        ]

    def _reopen(self, X: Any, weight: Any = None) -> LocalSource:
        """Rows to predict on: as many columns, and the same names, as in ``fit``."""
        check_is_fitted(self)
        return LocalSource(self._reopen_rows(X, weight, None, finite=True), self.n_jobs)

    def _reopen_rows(self, X: Any, weight: Any, groups: Any, finite: bool) -> Rows:
        """Rows like those of ``fit``; ``finite`` and ``groups`` as in :meth:`_open`."""
        if not (is_table(X) or is_rows(X)):
            return self._open_array(X, weight, groups, reset=False, finite=finite)
        if is_table(X):
            who, columns = group_column(X, groups), self._file_columns(X)
            rows = read_file(X, columns=columns, weight=weight, groups=who)
        else:
            rows = self._open_stream(X, None, weight, groups)
        if rows.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {rows.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        self._refuse_other_names(rows.names)
        return rows if finite else private_rows(rows)

    def _refuse_other_names(self, names: Sequence[str] | None) -> None:
        """Raise if columns that have names are not those of the fit, in their order."""
        fitted = getattr(self, "feature_names_in_", None)
        if names is None or fitted is None or list(names) == self._names():
            return
        raise ValueError(
            "The feature names of the rows should match those of the fit, in the same order; open "
            f"them with read_file(path, columns={self._names()})"
        )

    def _file_columns(self, X: Any) -> list[str] | None:
        """Columns are taken from a file by name, so that extra ones do no harm."""
        if not has_names(X) or not hasattr(self, "feature_names_in_"):
            return None
        return self._names()

    @staticmethod
    def _features(X: Any, groups: Any) -> Any:
        """What was fitted: a frame without the column that ``groups`` names; all else as it is."""
        return split_frame(X, groups)[0] if is_frame(X) and isinstance(groups, str) else X

    def _each(
        self,
        X: Any,
        function: Callable[[Block, Scratch], T],
        block_rows: int = 4088,
        weight: Any = None,
    ) -> Iterator[T]:
        empty = True
        for part in self._reopen(X, weight).each(function, block_rows):
            yield part
            empty = False
        if empty:
            raise ValueError("Found array with 0 sample(s): there are no rows to evaluate")

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the fitted model to a JSON file that :func:`privem.load` reads.

        The file holds parameters and fitted attributes, never code and never rows. It is written
        beside its destination first and then moved there, so a full disk or a killed process
        leaves an earlier file as it was.

        Parameters
        ----------
        path : path-like
            Where to write.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        save_model(self, path)
        return self
