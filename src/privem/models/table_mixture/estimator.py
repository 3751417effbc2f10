"""The estimator for mixed tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from ...blocks.region import Region
from ...budget import Terms
from ...data import Policy, Table, open_table
from ...data.frame import frame_like
from ...data.kinds import framed
from ...estimator.density import Components, OfBlock
from ...estimator.score import PrivatelyScored
from ...estimator.warnings import say_few
from ...ground import Preamble
from ...linalg import Array
from ...parameters import check_float, check_int, check_one_start, check_samples
from .exact import CountedFit, ExactTables
from .finding import Finding
from .imputing import imputed, known_cells
from .log_density import TableLogDensity
from .model import TableState
from .plan import PrivateTables, TableFit
from .reading import completed, needed, say_unread, schema_of
from .values import law_table, marginal_frame, place, sampler


@dataclass(repr=False, eq=False, kw_only=True)
class TableMixture(Components, DensityMixin, PrivatelyScored):  # type: ignore[misc]
    """A mixture over tables of mixed columns: numbers, categories, flags, dates, with gaps.

    A schema cuts each column into fine cells. Within a class of the mixture columns are
    independent; together many classes describe how columns depend. A private fit is two releases,
    of counts of cells and of tables of pairs of columns; what follows is arithmetic on them.

    Parameters
    ----------
    schema : Schema, dict, path or declaration, optional
        What the columns are, as public knowledge (:class:`privem.Schema`): a schema, what it is
        made of, a file with one, or one declaration for all columns. Columns of arrays are called
        ``x0``, ``x1``, ... A private fit needs one, and finds what it leaves open by releases, out
        of its budget; an exact one reads off the data what it is not told.
    target : str, optional
        A column that the others are to predict well. Tables are then of two columns and the
        target, so that it should have few values.
    n_components : int or "auto", default="auto"
        Number of classes. By default a private fit takes as many as its noise lets it see (one, if
        records are too few), in each of several searches of the releases, which are pooled. An
        exact fit doubles their number as long as the Bayesian information criterion improves.
    max_iter : int, default=1000
        Maximum number of iterations of an exact fit.
    tol : float, default=1e-6
        Exact fits stop when the mean log-likelihood gains less than this.
    n_init : int, default=1
        Starts of an exact fit; the best result is kept.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, neighbours, max_weight : see :class:`privem.GaussianMixture`
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    mechanism : {"auto", "joint"}, default="auto"
        ``"joint"``: all tables are one release.
    trust : {"central", "local"}, default="central"
        ``"local"``: each person's own device adds noise and sends one message. It needs very
        many people.
    random_state : int, RandomState or None
        Where searches begin, and for drawing; never for noise.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    schema_ : Schema
        With the types of the table that was fitted, and with bounds and categories that were found.
    weights_ : ndarray of shape (n_classes,)
    marginals_ : list of ndarray
        The probability of each bin, for each column.
    profiles_ : ndarray of shape (n_classes, n_bins)
        Probabilities of the bins of all columns, column after column.
    bins_ : list of ndarray
        The bin of each cell, for each column.
    cell_law_ : ndarray
        The probability of each cell within its bin, column after column.
    n_records_ : float
        How many records there are (the sum of weights); of a private fit, as released with noise.
    n_iter_ : int
        Iterations of an exact fit; of a private one, releases besides the count.
    privacy_, structure_, outside_ : private fits only
        The statement; ``"single"`` where columns are independent (one column, one class asked for,
        or too few records), else ``"full"``; what share may lie outside of bounds that were found.
    lower_bound_, converged_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from privem import TableMixture
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame({"age": rng.integers(18, 90, 5000)}).with_columns(
    ...     retired=pl.col("age") + pl.Series(rng.normal(0, 5, 5000)) > 65
    ... )
    >>> model = TableMixture(schema={"age": (18, 90), "retired": bool}, random_state=0).fit(people)
    >>> model.sample_frame(1000).schema == people.schema
    True
    >>> old = model.sample_frame(1000, given={"age": (80, 90)})
    >>> bool(old["retired"].mean() > 0.8)
    True
    """

    schema: Any = None
    target: str | None = None
    n_components: Any = "auto"
    max_iter: int = 1000
    tol: float = 1e-06
    n_init: int = 1
    trust: str = "central"
    random_state: Any = None

    _needed: ClassVar[tuple[str, ...]] = (
        *("schema_", "weights_", "marginals_", "profiles_", "bins_", "cell_law_", "n_records_"),
    )
    _released: ClassVar[tuple[str, ...]] = ("weights_", "marginals_")
    _mechanisms: ClassVar[Mapping[str, str]] = {"joint": "gaussian"}
    _parts: ClassVar[str] = "classes"
    _unselected: ClassVar[str] = (
        "its private fit chooses the number of classes itself (n_components='auto'), from the same "
        "tables whatever the number"
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self.schema is None and self.epsilon is None
        return tags

    # Fitting.

    def _check_parameters(self) -> None:
        for name in ("max_iter", "n_init"):
            check_int(name, getattr(self, name), 1)
        if not isinstance(self.n_components, str):
            check_int("n_components", self.n_components, 1)
        elif self.n_components != "auto":
            raise ValueError(f"n_components must be a number or 'auto', got {self.n_components!r}")
        check_float("tol", self.tol, 0.0)
        if self.target is not None and not isinstance(self.target, str):
            raise TypeError(f"target is the name of a column, got {self.target!r}")
        self._check_trust()
        if self.epsilon is None:
            return
        self._terms()
        check_one_start(self.n_init)

    def _open_table(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Table:
        private = self.epsilon is not None
        policy = super()._policy(private)
        framed_ = framed(X, policy)
        aside = [name for name in (y, sample_weight, groups) if isinstance(name, str)]
        schema = schema_of(self.schema, framed_, aside)
        schema = needed(schema) if private else completed(schema, framed_, aside)
        if self.target is not None and self.target not in schema.names:
            raise ValueError(
                f"target={self.target!r} is no column of the schema; it has "
                f"{', '.join(schema.names)}"
            )
        named = y if isinstance(y, str) else None
        policy = replace(policy, schema=schema)
        table = open_table(framed_, named, sample_weight, groups, policy)
        self.n_features_in_, self._header = table.n_features, table.header
        self.schema_ = schema if table.schema is None else table.schema
        if framed_ is X:
            self.feature_names_in_ = np.asarray(schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return table

    @property
    def _components(self) -> int | None:
        return None if self.n_components == "auto" else int(self.n_components)

    def _exact_plan(self, table: Table) -> ExactTables:
        known = (self._components, self.max_iter, self.tol, self.n_init)
        return ExactTables(self.schema_.cells, *known, self._rng())

    def _set_exact(self, result: CountedFit, table: Table) -> None:
        self._set_state(result.state)
        self.n_records_ = result.count
        self._set_converged(result)

    def _private_plan(self, table: Table, terms: Terms) -> PrivateTables:
        # Cells need no region: what the preamble is told keeps it from looking for one.
        d = self.n_features_in_
        preamble = Preamble.of(terms, table.people, d, Region.around_origin(1.0, d))
        # Two columns are one table, whichever is the target.
        at = None if self.target is None or d < 3 else self.schema_.names.index(self.target)
        finding = Finding(self.schema_, terms.delta)
        return PrivateTables(preamble, finding, finding.most, at, self._components, self._rng())

    def _set_private(self, result: TableFit) -> None:
        assert result.complete is not None
        self._set_state(result.state)
        self.schema_, self._found = result.complete.schema, dict(result.complete.known)
        if result.complete.outside is not None:
            self.outside_ = result.complete.outside
        self.n_iter_, self.n_records_ = result.iterations, float(result.ground.count)
        say_unread(self.schema_, self._state, self.n_records_)
        if result.structure == "single" and self.n_features_in_ > 1 and self._components is None:
            instead = "columns are taken for independent (structure_ is 'single'); "
            say_few(self, result.ground, "tables of pairs", instead)

    def _known(self, plan: PrivateTables, terms: Terms) -> dict[str, str]:
        held = ", and what holds between them" * bool(self.schema_.constraints)
        said = f"what each column is, with bounds or categories{held}"
        return {"schema": said, **self._found}

    def _known_types(self) -> dict[str, str]:
        kinds = [str(column.dtype) for column in self.schema_.columns]
        return {"column types": ", ".join(kinds)}

    @property
    def _replays(self) -> int:
        """Few: each goes on with the search."""
        return 8

    def _set_state(self, state: TableState) -> None:
        self.weights_, self.profiles_, self.cell_law_ = state.weights, state.profiles, state.law
        self.bins_ = [np.asarray(each, dtype=np.int64) for each in state.maps]
        self.marginals_ = [state.weights @ table for table in state.tables]

    @property
    def _state(self) -> TableState:
        maps = tuple(tuple(int(bin) for bin in each) for each in self.bins_)
        return TableState(self.weights_, self.profiles_, self.cell_law_, maps)

    def _policy(self, private: bool, fitted: bool = False) -> Policy:
        found = super()._policy(private, fitted)
        return replace(found, schema=self.schema_) if fitted else found

    def _reopen(
        self, X: Any, y: Any = None, weight: Any = None, groups: Any = None, **more: Any
    ) -> Table:
        check_is_fitted(self)
        return super()._reopen(self._framed(X), y, weight, groups, **more)

    def _framed(self, X: Any) -> Any:
        return framed(X, super()._policy(private=False, fitted=True))

    def _saved_parameters(self) -> dict[str, Any]:
        """Of the schema what was fitted: it may have been a file, or hold Python's types."""
        return super()._saved_parameters() | {"schema": self.schema_}

    # What the model says of records.

    def _log_joint(self) -> OfBlock:
        state = self._state
        return lambda block, scratch: state.log_joint(np.asarray(block.X, dtype=np.int64)).T.copy()

    @property
    def _block_rows(self) -> int:
        return max(64, min(4088, 2**22 // max(len(self.weights_), 1)))

    def _scored(self) -> TableLogDensity:
        return TableLogDensity(self._state)

    def _log_uniform(self) -> float:
        return -float(np.sum(np.log(self._state.sizes)))

    def score_samples(self, X: Any) -> Array:
        """Log-probability of each record's cells under the model.

        The schema cuts each column into cells, for numbers up to 256 or so: this is the probability
        that all values fall into their cells, and no density. Models of the same schema compare.
        """
        return super().score_samples(X)

    def anomaly_score(self, X: Any) -> Array:
        """How unlikely each record is: minus its log-probability. Higher is stranger."""
        return -self.score_samples(X)

    def conditional(self, column: str, X: Any) -> Any:
        """The law of a column, given the others.

        Parameters
        ----------
        column : str
        X : frame or array
            Records. Columns that it lacks, and values that are missing where the schema allows no
            gaps, count as not known. What it says of ``column`` itself is not used.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            Of the kind of X or, if that is an array or a file, of the kind that was fitted.
            A column for each value (of numbers and dates: each cell, called by its first value),
            and ``"missing"`` if the column has gaps; a row for each record.
        """
        check_is_fitted(self)
        j = place(self.schema_, column)
        cells = known_cells(self.schema_, self._framed(X), without=column)
        law = law_table(self.schema_, column, self._state.conditional(j, cells))
        return frame_like(X, law, self._kind(None))

    def marginal(self, *columns: str, library: str | None = None) -> Any:
        """The joint law of one or more columns.

        Parameters
        ----------
        *columns : str
        library : {"polars", "pandas"}, optional
            Which kind of frame; by default that which was fitted.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            A row for each combination of cells, named by their first values, and its
            ``"probability"``.
        """
        check_is_fitted(self)
        if not columns:
            raise ValueError("marginal takes the names of one or more columns")
        law = self._state.marginal(*(place(self.schema_, name) for name in columns))
        return marginal_frame(self.schema_, columns, law, self._kind(library))

    def impute(self, X: Any) -> Any:
        """Records in which every gap is filled by a draw, given all else that the record says.

        Parameters
        ----------
        X : pandas or polars frame
            Columns that are not in the schema stay as they are.

        Returns
        -------
        frame
            Of the same kind. Values that are there stay as they are.
        """
        check_is_fitted(self)
        return imputed(self.schema_, self._state, X, self._rng())

    def sample_frame(
        self,
        n_samples: int = 1,
        library: str | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        missing: bool = True,
    ) -> Any:
        """Draw records as a data frame: names, types, order and resolution as declared.

        Parameters
        ----------
        n_samples : int, default=1
            How many records.
        library : {"polars", "pandas"}, optional
            Which kind of frame. By default that which was fitted; polars, if it was an array or a
            file, or if the model was loaded.
        given : mapping, optional
            Conditions on columns: a value, a pair ``(low, high)`` of numbers, dates or times, a
            list of values, or ``None`` (missing). All records meet them, and the other columns are
            drawn given that they do; nothing is drawn in vain. A date stands for its first moment.
        missing : bool, default=True
            Whether values may be missing, as in the data; otherwise they are drawn too.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame

        Notes
        -----
        Drawn from a private model, the frame is as private as the model is; from an exact one
        (``epsilon=None``) it is not private at all.
        """
        check_is_fitted(self)
        check_samples(n_samples)
        kind = self._kind(library)
        draw = sampler(self.schema_, self._state, self._rng(), given, missing, kind.library)
        return kind.typed(draw(n_samples))

    def _sampler(self) -> Callable[[int], Any]:
        """Draws so many records at a time; what constraints need is computed once."""
        return sampler(self.schema_, self._state, self._rng())

    def _without_background(self) -> TableMixture:
        return self
