"""The latent class estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...blocks.region import Region
from ...blocks.shrinkage import alike, means_of, weights_of
from ...budget import Terms
from ...data import Policy, Table
from ...data.categories import CATEGORY_TYPES, category_column, check_categories
from ...em import Fit, Stream
from ...estimator.density import Components, OfBlock
from ...estimator.score import PrivatelyScored
from ...estimator.streamed import Streamed
from ...estimator.synthetic import Synthetic
from ...estimator.warnings import say_alike, say_lost, say_single
from ...ground import Preamble, PrivateFit
from ...parameters import (
    check_float,
    check_int,
    check_one_start,
    check_samples,
)
from ...run import held
from .model import CategoricalModel, Classes, ClassLogDensity, ClassQuery, block_rows
from .plan import ExactClasses, PrivateClasses

_LOCAL_ROUNDS = 4


@dataclass(repr=False, eq=False, kw_only=True)
class CategoricalMixture(
    Synthetic,
    Streamed,
    Components,
    DensityMixin,  # type: ignore[misc]
    PrivatelyScored,
):
    """Latent class analysis: a mixture over categorical (or binary) columns.

    Within a class the columns are independent. Values may be strings, numbers or booleans; pandas'
    and polars' categorical columns too. Files are read whole.

    Parameters
    ----------
    n_components : int, default=2
        Number of classes.
    categories : list or dict, optional
        The categories of each column: a list of lists, lists by column name (a dict), or one list
        for all columns. Public, like bounds: a private fit needs them, an exact one reads them off
        the data by default. Other values are an error in an exact fit; a private fit
        silently counts them as missing.
    max_iter : int, default=1000
        Maximum number of iterations, also of a private fit (see ``n_iter``).
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
        ``"joint"``: the counts and tables of all classes are one release per iteration.
    trust : {"central", "local"}, default="central"
        ``"local"``: each person's own device adds noise and sends one message. It needs very
        many people.
    n_iter : int, optional
        Iterations of a private fit; chosen from the noise level by default (4 if local).
    random_state : int, RandomState or None
        For the start (how classes are turned in the subspace that pairs span) and ``sample``.
    n_jobs : int, optional
        Number of threads over blocks of rows; ``None`` uses as many as BLAS would.
    ledger : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    category_probs_ : list of ndarray of shape (n_components, n_categories)
        One table per column.
    categories_ : list of ndarray
        The categories of each column, in the order of the tables.
    n_iter_ : int
    privacy_, structure_ : private fits only
        The statement; ``"single"`` where all classes are one, because noise drowns any more or
        because a paid comparison favours it, else ``"full"``.
    lower_bound_, converged_ : exact fits only
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_types_in_ : list of str
        ``"string"``, or of numbers and booleans the type declared.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import CategoricalMixture
    >>> rng = np.random.default_rng(0)
    >>> kind = rng.random(20_000) < 0.3
    >>> likes = np.where(kind[:, None], [0.9, 0.8, 0.9, 0.8], [0.1, 0.2, 0.3, 0.1])
    >>> X = np.where(rng.random((20_000, 4)) < likes, "yes", "no")
    >>> model = CategoricalMixture(2, categories=["no", "yes"], epsilon=1.0, random_state=0).fit(X)
    >>> bool(np.allclose(np.sort(model.weights_), [0.3, 0.7], atol=0.05))
    True
    """

    n_components: int = field(default=2, kw_only=False)
    categories: Any = None
    max_iter: int = 1000
    tol: float = 1e-06
    n_init: int = 1
    trust: str = "central"
    n_iter: int | None = None
    random_state: Any = None

    _needed: ClassVar[tuple[str, ...]] = ("weights_", "category_probs_", "categories_")
    _fixed: ClassVar[tuple[str, ...]] = ("n_components",)
    _released: ClassVar[tuple[str, ...]] = ("weights_", "category_probs_")
    _mechanisms: ClassVar[Mapping[str, str]] = {"joint": "gaussian"}
    _parts: ClassVar[str] = "classes"
    _column_types: ClassVar[tuple[str, ...]] = CATEGORY_TYPES
    bounds: ClassVar[None] = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _exact_plan(self, table: Table) -> ExactClasses:
        known = (self._sizes, self.n_components, self.max_iter, self.tol, self.n_init)
        return ExactClasses(*known, self._rng())

    def _set_exact(self, result: Fit[Classes], table: Table) -> None:
        self._set_state(result.state)
        self._set_converged(result)
        self._keep(Stream.after(result.release))

    def _online(self, table: Table) -> tuple[Any, Classes]:
        return lambda frame: CategoricalModel(self._sizes), self._state

    def _private_plan(self, table: Table, terms: Terms) -> PrivateClasses:
        # Codes need no region: what the preamble is told keeps it from looking for one.
        d = self.n_features_in_
        preamble = Preamble.of(terms, table.people, d, Region.around_origin(1.0, d))
        most = min(self.max_iter, _LOCAL_ROUNDS) if self._local else self.max_iter
        known = (self._sizes, self.n_components, self.n_iter, most)
        return PrivateClasses(preamble, *known, self._rng(), compared=not self._local)

    @property
    def _merges(self) -> bool:
        return True

    def _merged(self, fit: PrivateFit[Classes]) -> PrivateFit[Classes]:
        weights, profiles = fit.state.weights, fit.state.profiles

        def part(group: list[int]) -> float:
            profile = means_of(weights, profiles, [group])[0]
            return -float(weights[group].sum() * xlogy(profile, profile).sum())

        groups = held(lambda: alike(range(len(weights)), self.n_components, part))
        state = Classes(weights_of(weights, groups), means_of(weights, profiles, groups))
        structure = fit.structure if self.n_components > 1 else "full"
        return replace(fit, state=state, structure=structure, lost=())

    def _set_private(self, result: PrivateFit[Classes]) -> None:
        self._set_state(result.state)
        self.n_iter_ = result.iterations
        if result.structure == "single":
            say_single(self, result, "classes", "one")
        say_lost(result, "classes")

    def _advise(self) -> None:
        if self.n_components > 1 and self.structure_ != "single":
            say_alike(self)

    @property
    def _apart(self) -> tuple[str, ...]:
        return ("category_probs_",)

    def _known(self, plan: PrivateClasses, terms: Terms) -> dict[str, str]:
        return {"categories": "declared for every column"}

    def sample(self, n_samples: int = 1) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draw records: an array of categories, and the class each was drawn from."""
        codes, label = self._draw(n_samples, check_random_state(self.random_state))
        drawn = zip(self.categories_, codes, strict=True)
        return np.stack([categories[code] for categories, code in drawn], axis=1), label

    def _drawn(self, n_samples: int, rng: Any) -> dict[str, Any]:
        codes, label = self._draw(n_samples, rng)
        order = rng.permutation(len(label))
        types = getattr(self, "feature_types_in_", ["string"] * self.n_features_in_)
        drawn = zip(self._names("x"), self.categories_, codes, types, strict=True)
        return {n: category_column(known, code[order], t) for n, known, code, t in drawn}

    def _categories(self) -> dict[str, Any]:
        return dict(zip(self._names("x"), self.categories_, strict=True))

    def _draw(self, n_samples: int, rng: Any) -> tuple[list[NDArray[np.int64]], Any]:
        """Codes of drawn records, column by column, and their classes."""
        check_is_fitted(self)
        check_samples(n_samples)
        counts = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        label = np.repeat(np.arange(len(counts)), counts)
        codes = []
        for table in self.category_probs_:
            edges = np.cumsum(table, axis=1)[label]
            code = (rng.random_sample((n_samples, 1)) * edges[:, -1:] > edges).sum(axis=1)
            codes.append(np.minimum(code, table.shape[1] - 1))
        return codes, label

    def _check_parameters(self) -> None:
        for name in ("n_components", "max_iter", "n_init"):
            check_int(name, getattr(self, name), 1)
        check_float("tol", self.tol, 0.0)
        self._check_trust()
        check_categories(self.categories)
        if self.epsilon is None:
            return
        self._terms()
        if self.categories is None:
            raise ValueError(
                "a private fit needs categories=: the list of each column's categories, from public"
                " knowledge (reading them off the data would give rare ones away)"
            )
        check_one_start(self.n_init)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(len(categories) for categories in self.categories_)

    def _set_state(self, state: Classes) -> None:
        self.weights_ = state.weights
        self.category_probs_ = np.split(state.profiles, np.cumsum(self._sizes)[:-1], axis=1)

    @property
    def _state(self) -> Classes:
        return Classes(self.weights_, np.concatenate(self.category_probs_, axis=1))

    def _scored(self) -> ClassLogDensity:
        return ClassLogDensity(self._state, self._sizes)

    def _n_parameters(self) -> int:
        return len(self.weights_) * (1 + sum(self._sizes) - len(self._sizes)) - 1

    def _log_uniform(self) -> float:
        return -float(np.sum(np.log(self._sizes)))

    def _log_joint(self) -> OfBlock:
        query = ClassQuery(self._state, self._sizes)
        return lambda block, scratch: query.log_joint(block.X, scratch)

    @property
    def _block_rows(self) -> int:
        return block_rows(self._sizes)

    def _policy(self, private: bool, fitted: bool = False) -> Policy:
        known = self.categories_ if fitted else self.categories
        return replace(super()._policy(private, fitted), coded=True, categories=known)

    def _open_table(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Table:
        table = super()._open_table(X, y, sample_weight, groups)
        self.categories_ = list(table.categories or ())
        return table
