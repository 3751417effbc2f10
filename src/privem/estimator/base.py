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
from sklearn.utils.validation import check_is_fitted

from ..blocks.region import Region
from ..bounds import estimated
from ..budget import PrivatePlan, Terms
from ..core import Block, Plan, Release, Scratch, Stage
from ..data import Policy, Table, open_table
from ..data.frame import FrameKind, without_column
from ..data.header import Header
from ..data.table import refuse_sums_only
from ..data.values import TYPES, is_frame
from ..em import Fit
from ..fit import fit
from ..ground import Ground, Preamble
from ..linalg import Array
from ..local import Crowd
from ..parameters import check_int, check_option, in_order, region_of
from .shown import Shown
from .store import save_model
from .warnings import advise_at_end, why_absent

T = TypeVar("T")


@dataclass(repr=False, eq=False, kw_only=True)
class Estimator(Shown):
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
    ledger: Any = None

    # The fitted attributes without which there is no model; a file holds them, and those that all
    # models have in common (:mod:`privem.estimator.store`).
    _needed: ClassVar[tuple[str, ...]] = ()
    # The ways to release sums, besides "auto", and the kind of noise of each.
    _mechanisms: ClassVar[Mapping[str, str]] = {}
    # What its columns may be.
    _column_types: ClassVar[tuple[str, ...]] = TYPES
    # Attributes that an exact fit may be without: why, and what to use.
    _missed: ClassVar[Mapping[str, str]] = {}
    # Whether it takes sparse arrays.
    _sparse: ClassVar[bool] = False
    # Whether its rows have a target.
    _target: ClassVar[bool] = False
    # Whether NaN in X means that a value is missing, and passes.
    _missing: ClassVar[bool] = False
    # Of the CSV file fitted: which of its column names messages may quote.
    _header: Header | None = field(init=False, default=None)
    # What kind of frame was fitted, and tables are returned as.
    _frame: FrameKind | None = field(init=False, default=None)
    # Called with each stage and release: the command line hangs its progress bar here.
    _watch: Callable[[Stage, Release[Any]], None] | None = field(init=False, default=None)
    # Called before a private fit spends anything, with the number of records if it is public, and
    # may raise: the command line forecasts here.
    _before: Callable[[Any, float | None], None] | None = field(init=False, default=None)

    if not TYPE_CHECKING:  # it would hide every misspelt attribute from the type checker

        def __getattr__(self, name: str) -> Any:
            message = why_absent(self, name)
            raise AttributeError(message, name=name, obj=self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise is fresh in every private fit, whatever the random_state.
        tags.non_deterministic = self.epsilon is not None
        tags.input_tags.sparse = self._sparse
        tags.input_tags.allow_nan = self._missing
        tags.target_tags.required = self._target
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the model, privately unless ``epsilon=None``.

        Parameters
        ----------
        X : array, data frame, path or rows
            The records: ``(n_samples, n_features)``, or a ``.npy``, ``.csv`` or ``.parquet`` file
            (or folder of files), what :func:`privem.data.read_file` returns or, for workers of a
            cluster to sum, :func:`privem.data.on_cluster`, a Dask array or data frame, or a
            :class:`privem.federation.Federation` of parties that keep them.
        y : array-like of shape (n_samples,), str or None
            The target, for models that have one: its values or, with a frame or a path, the name of
            its column. Other models ignore it; with a path, it may name a column to leave out.
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
    def _set_private(self, result: Any) -> None:
        """Set what a private fit has found."""

    @property
    def _isotropic(self) -> bool:
        """Whether bounds have one scale for all features."""
        return False

    @property
    def _block_rows(self) -> int:
        """How many rows are evaluated at a time."""
        return 4088

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
        d, names = self.n_features_in_, self._called()
        return Preamble.of(terms, table.people, d, region, self._isotropic, names)

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

    def _refuse_search(self, needed: bool) -> None:
        """Refuse bounds that have to be found where nobody sees all records."""
        if self._local and needed:
            both = " and target_bounds" if self._target else ""
            raise ValueError(
                f"trust='local' needs bounds{both}: nobody may look at all records to find them"
            )

    def _rng(self) -> np.random.Generator:
        """What ``random_state`` draws."""
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31, size=4))

    def _policy(self, private: bool, fitted: bool = False) -> Policy:
        """What rows are opened for: a fit, or the evaluation of a fitted model."""
        return Policy(
            name=type(self).__name__,
            params=self.get_params(deep=False),
            estimator=self,
            private=private,
            fitted=fitted,
            target=self._target,
            missing=self._missing,
            flags=fitted or self._takes_flags(),
            sparse=self._sparse,
            devices=Crowd if private and self._local and not fitted else None,
        )

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit rows that are to be predicted, and return them as that takes them.

        Raises before the fit spends anything where nobody can predict them here.
        """
        refuse_sums_only(X, self._policy(private=False, fitted=True))
        self.fit(X, y, sample_weight=sample_weight, groups=groups)
        return self._features(X, groups)

    def _takes_flags(self) -> bool:
        """Whether columns that are declared as yes or no are taken for numbers."""
        return True

    def _open_table(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Table:
        """The rows of a fit, exact or private, checked; records their columns."""
        policy = self._policy(self.epsilon is not None)
        table = open_table(X, y, sample_weight, groups, policy)
        self.n_features_in_ = table.n_features
        self.feature_types_in_ = list(table.types or ["float64"] * table.n_features)
        self._header = table.header
        names = None if table.names is None else np.asarray(table.names, dtype=object)
        for name, value in (("feature_names_in_", names), ("target_name_in_", table.target_name)):
            if value is not None:
                setattr(self, name, value)
            elif hasattr(self, name):
                delattr(self, name)
        return table

    def _reopen(
        self, X: Any, y: Any = None, weight: Any = None, groups: Any = None, **more: Any
    ) -> Table:
        """Rows to evaluate: as many columns, and the same names, as in ``fit``.

        ``more`` of the policy: ``private``; or ``target``, with their targets, which are y or, of
        rows opened before, the last column.
        """
        check_is_fitted(self)
        policy = replace(self._policy(private=False, fitted=True), **{"target": False} | more)
        return open_table(X, y, weight, groups, policy)

    def _known(self, plan: Any, terms: Terms) -> dict[str, str]:
        """What a statement says is public, besides numbers and types of columns."""
        region, names = plan.preamble.region, getattr(self, "feature_names_in_", None)
        return {"bounds": self._in_words(region, names)}

    def _known_bounds(self, names: Sequence[str] | None) -> dict[str, str]:
        """Bounds and, where there is a target, its bounds, each given or estimated."""
        region = self._region(self.n_features_in_)
        known = {"bounds": self._in_words(region, names)}
        if hasattr(self, "target_bounds"):
            target = self._target_region()
            known["target bounds"] = self._in_words(target)
        return known

    def _in_words(self, region: Region | None, names: Sequence[str] | None = None) -> str:
        """What a statement says of bounds: as they were given, or how they were found."""
        return estimated(self.outside_) if region is None else region.in_words(names)

    def _set_converged(self, fit: Fit[Any]) -> None:
        """Set how an exact EM ended; advise if it did not converge."""
        self.n_iter_, self.lower_bound_, self.converged_ = fit.n_iter, fit.objective, fit.converged
        if not fit.converged:
            advise_at_end(
                f"{type(self).__name__} did not converge: increase max_iter or tol",
                ConvergenceWarning,
            )

    def _set_bounds(self, ground: Ground) -> None:
        """Set ``bounds_`` from the ground of a private fit and, where they were found, more."""
        self.bounds_ = self._sides(ground.region, ground.outside is None)
        self._set_outside(ground)

    def _sides(self, region: Region, given: bool) -> tuple[Array, Array]:
        """Lowest and highest value of each feature; of a box, as they were given."""
        if region.ball or not given:
            return region.sides
        # To unit coordinates and back, they would lose a last digit.
        low, high = (np.broadcast_to(side, region.d) for side in self._ordered_bounds())
        return low.astype(np.float64), high.astype(np.float64)

    def _set_outside(self, ground: Ground) -> None:
        """Set what share of the records may lie outside of bounds that were found."""
        if ground.outside is not None:
            self.outside_ = ground.outside

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

    def _names(self, prefix: str = "") -> list[str]:
        """A name for each column; where there is none, its number after ``prefix``."""
        made_up = [f"{prefix}{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in getattr(self, "feature_names_in_", made_up)]

    def _called(self) -> list[str]:
        """A name for each column in messages: its number, if nobody has confirmed the header."""
        return [
            name if self._header is None or self._header.quotes(name) else f"number {j + 1}"
            for j, name in enumerate(self._names())
        ]

    def _kind(self, library: str | None) -> FrameKind:
        """What kind of frame to return; if nobody says, that which was fitted."""
        if library is None:
            return self._frame or FrameKind()
        check_option("library", library, ("polars", "pandas"))
        return self._frame if self._frame and self._frame.library == library else FrameKind(library)

    @staticmethod
    def _features(X: Any, groups: Any) -> Any:
        """What was fitted: a frame without the column that ``groups`` names; all else as it is."""
        named = is_frame(X) and isinstance(groups, str)
        return without_column(X, groups, "groups")[0] if named else X

    def _each(self, X: Any, function: Callable[[Block, Scratch], T], **more: Any) -> Iterator[T]:
        """A function of every block of rows; ``more`` as in :meth:`_reopen`."""
        empty = True
        for part in self._reopen(X, **more).each(function, self.n_jobs, self._block_rows):
            yield part
            empty = False
        if empty:
            raise ValueError("Found array with 0 sample(s): there are no rows to evaluate")

    def _all(self, X: Any, function: Callable[[Block, Scratch], Any], **more: Any) -> Any:
        """The same, of all rows in one array."""
        return np.concatenate(list(self._each(X, function, **more)))

    def _saved_parameters(self) -> dict[str, Any]:
        """The parameters that a model file holds."""
        # A ledger's URL may hold a password; the statement says which entry was charged.
        return {n: value for n, value in self.get_params(deep=False).items() if n != "ledger"}

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
        save_model(self._without_releases(), path)
        return self
