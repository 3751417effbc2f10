"""What every estimator shares: opening rows, running plans, saving."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ..blocks.preamble import Ground
from ..core import Block, Plan, Release, Rows, Scratch, Source, Stage
from ..data import ArrayRows, FrameRows, LocalSource, is_rows, is_table, read_file
from ..data.array import unmasked
from ..data.checks import refuse_nan, refuse_non_finite
from ..data.frame import is_frame
from ..data.header import Header
from ..data.local import effective_threads, one_blas_thread
from ..data.owned import Owned, group_column, labels_of, length_of
from ..data.persons import split_frame
from ..data.read import has_names, refuse_kind
from ..data.secret import quietly
from ..data.table import People, Table
from ..data.types import TYPES, type_name
from ..federation import Federation
from ..meter import Meter
from ..run import run
from .advice import advise_at_end, few
from .federated import (
    federated_people,
    open_federation,
    refuse_pure,
    refuse_rows_arguments,
)
from .limits import in_order
from .lineage import WithLineage, count_fit
from .opening import crowd, private_rows, unchecked, weights_of, without_values
from .parameters import check_int
from .store import save_model
from .terms import ESTIMATED, Terms, forget_private
from .unreleased import missing_attribute
from .whole import whole

__all__ = ["Estimator"]

T = TypeVar("T")


class Estimator(WithLineage):
    """Abstract base: rows in, plans run, models saved. Holds no algorithm."""

    # What a saved model consists of; everything else can be recomputed or belongs to the data.
    _saved: ClassVar[tuple[str, ...]] = ()
    # Those of them without which there is no model.
    _needed: ClassVar[tuple[str, ...]] = ()

    # Names of the ways to release sums, besides "auto".
    _mechanisms: ClassVar[tuple[str, ...]] = ()

    # What its columns may be.
    _column_types: ClassVar[tuple[str, ...]] = TYPES

    # Whether it takes sparse arrays.
    _sparse: ClassVar[bool] = False

    # Of the CSV file fitted: which of its column names messages may quote.
    _header: Header | None = None

    # Called with each stage and release: the command line hangs its progress bar here.
    _watch: Callable[[Stage, Release[Any]], None] | None = None

    # Every estimator by name: what ``privem.load`` can bring back.
    kinds: ClassVar[dict[str, type[Estimator]]] = {}

    n_jobs: int | None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "fit" in vars(cls):
            cls.fit = whole(cls.fit)
        Estimator.kinds[cls.__name__] = cls

    if not TYPE_CHECKING:  # it would hide every misspelt attribute from the type checker

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise is fresh in every private fit, whatever the random_state.
        tags.non_deterministic = getattr(self, "epsilon", None) is not None
        tags.input_tags.sparse = self._sparse
        return tags

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

    def _open_privately(
        self, X: Any, y: Any, sample_weight: Any, groups: Any
    ) -> tuple[Source, People]:
        """A source for a private fit, and who its rows belong to."""
        refuse_pure(X, self.delta, getattr(self, "max_rows", None))
        return self._owned(self._open(X, y, sample_weight, groups, finite=False), groups)

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

    def _terms(self, d: int | None, isotropic: bool = False) -> Terms:
        """The terms of privacy, checked; ``d=None`` before there are data."""
        if getattr(self, "n_iter", None) is not None:
            check_int("n_iter", self.n_iter, 1)
            if self.n_iter > self.max_iter:
                raise ValueError(
                    f"n_iter={self.n_iter} is above max_iter={self.max_iter}, the most iterations "
                    "that any fit may take: raise one or lower the other"
                )
        return Terms.check(
            self.epsilon,
            self.delta,
            self.bounds if d is None else self._ordered_bounds(),
            self.mechanism,
            self.accountant,
            self.neighbours,
            self.max_weight,
            d,
            isotropic,
            ("auto", *self._mechanisms),
            getattr(self, "max_rows", None),
        )

    def _forget(self) -> None:
        """What an earlier fit said must not outlive it."""
        forget_private(self)
        for name in ("converged_", "lower_bound_", "lower_bounds_", "labels_", "inertia_"):
            if hasattr(self, name):
                delattr(self, name)

    def _set_ground(
        self,
        ground: Ground,
        terms: Terms,
        meter: Meter,
        people: People,
        names: Sequence[str] | None = None,
    ) -> None:
        """Statement and bounds; ``names`` of the ground's columns, if they are not the features."""
        region = ground.region
        self.bounds_ = (region.to_data(-region.limit), region.to_data(region.limit))
        if terms.region is not None and not region.ball and names is None:
            # As they were given: to unit coordinates and back, they would lose a last digit.
            low, high = (np.broadcast_to(side, region.d) for side in self._ordered_bounds())
            self.bounds_ = (low.astype(np.float64), high.astype(np.float64))
        public = people.public(self.neighbours)
        if terms.region is None:
            public["bounds"] = ESTIMATED
        if people.weighted:
            public["largest sample weight"] = f"{terms.max_weight:g}"
        public.update(self._known_types())
        named = names or getattr(self, "feature_names_in_", None)
        statement = terms.statement(meter, people.unit, public, named)
        self.privacy_ = people.signed(statement)
        if ground.found is not None and not ground.found.all():
            columns = names or self._names()
            lost = [n for n, ok in zip(columns, ground.found, strict=True) if not ok]
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

    def _run(self, plan: Plan[T], rows: Rows) -> T:
        if isinstance(rows, Federation):
            return run(plan, rows, self._watch)
        # Counted before BLAS is held: None means as many threads as BLAS had.
        threads = effective_threads(self.n_jobs)
        with one_blas_thread():
            return run(plan, LocalSource(rows, threads), self._watch)

    def _run_privately(self, plan: Plan[T], source: Source, meter: Meter) -> T:
        count_fit(self)
        self._forget()
        # A caller's np.seterr(all="raise") must not end a fit that is being paid for.
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            return run(plan, source, self._watch, meter)

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
