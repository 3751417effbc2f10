"""The k-means estimator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ...blocks.moments import Frame
from ...budget import Terms
from ...core import Block, Rows, Scratch
from ...data.sums import all_values
from ...data.table import Table
from ...em import Fit, Stream
from ...estimator.inits import given_centres, row_centres
from ...estimator.streamed import Streamed
from ...estimator.verbose import Verbose, verbose_lloyd, watching
from ...estimator.warnings import advise, advise_at_end, say_alike, say_lost
from ...ground import PrivateFit
from ...kernels.compiled import nearest_labels
from ...linalg import Array
from ...parameters import check_float, check_int, check_one_start, check_option
from ...report.shapes import Shapes
from .model import Clusters, KMeansModel
from .plan import KMeansPlan
from .private_plan import PrivateKMeansPlan
from .query import KMEANS_RECIPES


@dataclass(repr=False, eq=False, kw_only=True)
class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Streamed):  # type: ignore[misc]
    """k-means clustering, fitted privately by Lloyd's algorithm.

    The fit is differentially private unless ``epsilon=None``. Then it is exact, and a drop-in for
    :class:`sklearn.cluster.KMeans`. Either fits files without loading them, in memory that does not
    grow with the data.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"split", "k-means++", "random"}, array-like or callable, default="split"
        Where to start. ``"split"`` splits the data by sums alone, so that weighting a record by
        two and repeating it mean the same. ``"k-means++"`` (on a sample of rows) and
        ``"random"`` (rows) look at single rows. An array gives the centres; a callable is called
        with ``(X, n_clusters, random_state)`` for each start, X being all rows as an array.
    n_init : int or "auto", default="auto"
        Number of starts; the smallest inertia is kept. ``"auto"`` is 10 for ``"random"`` and
        callables, else 1. Exact fits only.
    max_iter : int, default=300
        Maximum number of iterations, also of a private fit (see ``n_iter``).
    tol : float, default=1e-4
        Exact fits stop when the centres move less than this times the mean variance.
    verbose : int, default=0
        Print progress; of an exact fit, the inertia at each iteration and why it stopped.
    random_state : int, RandomState or None
        For starts other than the first split.
    copy_x, algorithm : accepted for compatibility
        Data are never changed; ``"lloyd"`` and ``"elkan"`` give the same answer.
    epsilon : float or None, default=1.0
        The privacy budget of the whole fit; ``None`` fits exactly, without any privacy.
    delta, bounds, neighbours, max_weight, max_rows : see :class:`privem.GaussianMixture`
        ``delta=0`` goes with ``"dplloyd"`` (which ``"auto"`` then means) and ``"ll"``.
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    mechanism : {"auto", "whitened", "joint", "gg", "ll", "dplloyd"}, default="auto"
        How sums are released; ``"auto"`` is ``"whitened"``: measured from the last centres.
        ``"gg"`` and ``"ll"`` are those of Park et al. 2016, ``"dplloyd"`` that of Blum et al. 2005.
    n_iter : int, optional
        Iterations of a private fit; chosen from the noise level by default.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    n_iter_ : int
    privacy_, bounds_ : private fits only
        The statement, and the bounds used.
    outside_ : float
        Private fits without given bounds only: at most that share of the records lies outside of
        what was found, in any column.
    structure_ : {"full", "grid"}
        Private fits only: ``"grid"`` if centres come from the noisy grid of the start alone,
        because iterations would only move noise.
    labels_ : ndarray of shape (n_samples,), exact fits only
        Cluster of each training record.
    inertia_ : float, exact fits only
        Weighted sum of squared distances to the nearest centre.
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str, the declared type of each column

    Notes
    -----
    A cluster that loses all its records keeps its centre (scikit-learn moves it to a far record,
    which would make the result depend on a single row).

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> KMeans(n_clusters=2, bounds=(0, 12)).fit(X).privacy_.epsilon
    1.0
    >>> exact = KMeans(n_clusters=2, epsilon=None).fit(X)
    >>> exact.cluster_centers_[:, 1].tolist()
    [2.0, 2.0]
    >>> len(set(exact.predict([[0, 0], [12, 3]])))
    2
    """

    n_clusters: int = field(default=8, kw_only=False)
    init: Any = "split"
    n_init: int | str = "auto"
    max_iter: int = 300
    tol: float = 0.0001
    verbose: int = 0
    random_state: Any = None
    copy_x: bool = True
    algorithm: str = "lloyd"
    bounds: Any = None
    n_iter: int | None = None
    max_rows: int | None = None

    _needed: ClassVar[tuple[str, ...]] = ("cluster_centers_",)
    _mechanisms: ClassVar[Mapping[str, str]] = KMEANS_RECIPES
    _sparse: ClassVar[bool] = True
    _parts: ClassVar[str] = "clusters"
    _fixed: ClassVar[tuple[str, ...]] = ("n_clusters",)

    @property
    def _isotropic(self) -> bool:
        return True

    def _progress(self) -> AbstractContextManager[Any]:
        if not self.verbose:
            return super()._progress()
        private = Verbose(self.verbose, 1, "k-means")
        return watching(self, verbose_lloyd if self.epsilon is None else private)

    def _exact_plan(self, table: Table) -> KMeansPlan:
        starts = self._starts(table.rows)
        return KMeansPlan(self._called(), self.n_clusters, self.max_iter, self.tol, starts)

    def _set_exact(self, result: tuple[Frame, Fit[Clusters]], table: Table) -> None:
        frame, fit = result
        self._set_state(fit.state)
        self.n_iter_ = fit.n_iter
        self._keep(Stream.after(fit.release, frame))
        if table.single_rows:
            self._set_labels(table, int(frame.rows))
        else:  # labels are the parties' own business: each may predict its rows
            self.inertia_ = -fit.objective * frame.count
        if not fit.converged:
            advise_at_end("k-means did not converge: increase max_iter or tol", ConvergenceWarning)

    def _set_labels(self, table: Table, rows: int) -> None:
        # Filled in place: a list of parts and their concatenation would be twice the labels.
        self.labels_, self.inertia_, at = np.empty(rows, dtype=np.int32), 0.0, 0
        used = np.zeros(self.n_clusters, dtype=np.bool_)
        for labels, inertia in table.each(self._assign, self.n_jobs):
            self.labels_[at : at + len(labels)] = labels
            self.inertia_ += inertia
            at += len(labels)
            used[labels] = True
        if not used.all():
            advise_at_end(
                f"Number of distinct clusters ({used.sum()}) found smaller than n_clusters "
                f"({self.n_clusters}). Possibly due to duplicate points in X.",
                ConvergenceWarning,
            )

    def _online(self, table: Table) -> tuple[Any, Clusters]:
        return KMeansModel, Clusters(self.cluster_centers_)

    def _set_state(self, state: Clusters) -> None:
        self.cluster_centers_ = state.centres

    def _private_plan(self, table: Table, terms: Terms) -> PrivateKMeansPlan:
        start = None
        if not isinstance(self.init, str):
            start = given_centres(self.init, self.n_clusters, self.n_features_in_)
        return PrivateKMeansPlan(
            self._preamble(table, terms),
            self.n_clusters,
            terms.recipe,
            self.n_iter,
            self._rng(),
            start,
            self.max_iter,
        )

    def _set_private(self, result: PrivateFit[Array]) -> None:
        # A private start moves centres to where records are, so it counts where nothing follows it.
        self.cluster_centers_, self.n_iter_ = result.state, max(result.iterations, 1)
        self._set_bounds(result.ground)
        say_lost(result, "clusters")

    def _advise(self) -> None:
        if self.n_clusters > 1:
            say_alike(self)

    @property
    def _apart(self) -> tuple[str, ...]:
        return ("cluster_centers_",)

    def _shapes(self) -> Shapes:
        return Shapes(self.cluster_centers_)

    def _assign(self, block: Block, scratch: Scratch) -> tuple[NDArray[np.int32], float]:
        """Labels and inertia of a block; distances from differences, so that no digits are lost."""
        origin = self.cluster_centers_.mean(axis=0)
        label = nearest_labels(block.X, origin, self.cluster_centers_ - origin, scratch)
        away = block.X - self.cluster_centers_[label]
        squares = np.einsum("ij,ij->i", away, away)
        inertia = squares.sum() if block.weight is None else squares @ block.weight
        return label, float(inertia)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> NDArray[np.int32]:
        """Fit, then :meth:`predict` the same rows; the labels are not private."""
        self.fit(X, y, sample_weight=sample_weight, groups=groups)
        return self.predict(self._features(X, groups))

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> Array:
        """Fit, then :meth:`transform` the same rows; the distances are not private."""
        self.fit(X, y, sample_weight=sample_weight, groups=groups)
        return self.transform(self._features(X, groups))

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Index of the nearest centre of each record."""
        return np.concatenate([labels for labels, _ in self._each(X, self._assign)])

    def transform(self, X: Any) -> Array:
        """Distance of each record to each centre."""
        # From differences: expanding the square would lose half the digits near a centre.
        return np.asarray(self._all(X, lambda b, s: cdist(b.X, self.cluster_centers_)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the (weighted) sum of squared distances to the nearest centre."""
        parts = self._each(X, self._assign, weight=sample_weight)
        return -float(sum(inertia for _, inertia in parts))

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _refuse_exact_only(self) -> None:
        """Refuse what looks at single rows, or fits more than once: it cannot be private."""
        if self.n_init != "auto":
            check_one_start(self.n_init)
        if callable(self.init) or (isinstance(self.init, str) and self.init != "split"):
            raise ValueError(
                f"a private fit cannot use init={self.init!r}, which looks at single rows; leave "
                "it out, or give an array of centres, which counts as public"
            )

    def _check_parameters(self) -> None:
        check_int("n_clusters", self.n_clusters, 1)
        check_int("max_iter", self.max_iter, 1)
        check_float("tol", self.tol, 0.0)
        check_option("algorithm", self.algorithm, ("lloyd", "elkan"))
        if self.n_init != "auto":
            check_int("n_init", self.n_init, 1)
        if isinstance(self.init, str):
            check_option("init", self.init, ("split", "k-means++", "random"))
        if self.epsilon is not None:
            self._terms()
            self._refuse_exact_only()

    def _starts(self, rows: Rows) -> list[Any]:
        k, d = self.n_clusters, rows.n_features
        random = check_random_state(self.random_state)
        if not (isinstance(self.init, str) or callable(self.init)):
            if self.n_init not in ("auto", 1):
                advise(
                    "Explicit initial center position passed: performing only one init in KMeans "
                    f"instead of n_init={self.n_init}.",
                    RuntimeWarning,
                )
            return [given_centres(self.init, k, d)]
        runs = self.n_init
        if runs == "auto":
            runs = 1 if self.init in ("split", "k-means++") else 10
        if callable(self.init):
            X = all_values(rows)
            drawn = (self.init(X, k, random_state=random) for _ in range(int(runs)))
            return [given_centres(centres, k, d) for centres in drawn]
        starts: list[Any] = []
        for turn in range(int(runs)):
            rng = np.random.default_rng(random.randint(2**31, size=4))
            if self.init == "split":
                starts.append(rng if turn else None)
            else:
                starts.append(row_centres(rows, k, self.init, rng))
        return starts
