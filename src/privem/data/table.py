"""The one door for data: :func:`open_table` makes a :class:`Table` of whatever holds rows.

A fit asks a table for sums (:meth:`Table.source`), never for what kind of rows it has. The kinds
that privem itself knows are in :mod:`privem.data.kinds`. Another one, such as a federation or the
rows of a cluster, is a file that calls :func:`register`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from numpy.typing import NDArray

from ..core import Block, Rows, Scratch, Source
from .columns import Column
from .header import Header
from .persons import Owned
from .raw import ListedSource, Texts
from .sums import LocalSource

T = TypeVar("T")
Statement = TypeVar("Statement")


class Declared(Protocol):
    """What the columns of a mixed table are: a :class:`privem.Schema`."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those to be read, in order."""

    @property
    def names(self) -> list[str]:
        """Their names."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Columns to be left out."""

    def for_types(self, types: Mapping[str, Any]) -> Self:
        """The same for a table whose columns have these types."""


@dataclass(frozen=True)
class Policy:
    """What rows are opened for: what they may hold, and what may be said about their values.

    An exact fit refuses values that are not finite and says where they are. A private one
    (``private``) only says that a value is missing. A party (``party``) refuses none: queries map
    bad values by a fixed rule.

    Parameters
    ----------
    name, params : str and mapping
        Who reads them, in messages: the name of an estimator; and its parameters, which parties of
        a federation are told.
    estimator : estimator, optional
        Itself, for scikit-learn's checks of form; ``None`` is for none of them.
    private, party : bool
    devices : callable, optional
        Makes a source of people who answer one by one; one record a person.
    fitted : bool
        Whether columns must be those of the estimator's fit, as when it predicts.
    target : bool
        Whether the last column is a target: y, a column that it names, or rows opened with one.
    missing : bool
        Whether NaN in a feature means that it is missing, and passes.
    flags : bool
        Whether columns that a frame or a file declares as yes or no are taken for numbers.
    categories : mapping or sequence, optional
        Declared categories, or those of the fit; ``None`` are to be found in the rows.
    coded : bool
        Whether columns hold categories.
    sparse : bool
        Whether sparse arrays are taken.
    header : bool, optional
        Whether the first line of a CSV file is a header; see :func:`privem.data.read_file`.
    schema : Schema, optional
        What the columns of a mixed table are. Rows are then numbers of fine cells
        (:mod:`privem.data.cells`), in the schema's order; in a private fit, columns whose bounds or
        categories are to be found are other numbers (:mod:`privem.data.raw`).

    Examples
    --------
    >>> Policy().exact, Policy(private=True).exact  # whether errors may name values
    (True, False)
    """

    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    estimator: Any = None
    private: bool = False
    party: bool = False
    devices: Callable[[Rows], Source] | None = None
    fitted: bool = False
    target: bool = False
    missing: bool = False
    flags: bool = True
    categories: Any = None
    coded: bool = False
    sparse: bool = False
    header: bool | None = None
    schema: Declared | None = None

    @property
    def exact(self) -> bool:
        """Whether errors may name values."""
        return not (self.private or self.party)

    @property
    def finite(self) -> bool:
        """Whether every value must be finite, and errors may say which is not."""
        return self.exact and not self.missing

    @property
    def finds(self) -> bool:
        """Whether bounds and categories that a schema leaves open may be found by releases."""
        return self.private and not (self.party or self.fitted or self.devices is not None)

    @property
    def columns(self) -> list[str] | None:
        """The columns to take from what has more of them: those of the fit, if they have names."""
        return self.seen if self.fitted else None

    @property
    def seen(self) -> list[str] | None:
        """The names that the estimator has last seen."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]


@dataclass(frozen=True)
class People:
    """The unit of privacy and how many there are.

    ``count`` is ``None`` if rows are streamed and were not counted.
    """

    unit: str
    count: int | None
    weighted: bool
    sign: Callable[[Any], Any] | None = None
    """What a source adds to the statement of a fit: a federation says who could learn what."""

    def public_count(self, neighbours: str) -> float | None:
        """The number that is public knowledge: when one is replaced, never when weighted."""
        if neighbours == "replace-one" and not self.weighted and self.count is not None:
            return float(self.count)
        return None

    def public(self, neighbours: str) -> dict[str, str]:
        """What the statement lists as public."""
        count = self.public_count(neighbours)
        return {} if count is None else {f"number of {self.unit}s": f"{int(count)}"}

    def signed(self, statement: Statement) -> Statement:
        """The statement of a fit that has ended, with what the source adds to it."""
        return statement if self.sign is None else self.sign(statement)


# Records that were not counted.
RECORDS = People("record", None, False)


@dataclass(frozen=True)
class Table:
    """Rows as a fit sees them, whatever they came from.

    Examples
    --------
    >>> table = open_table([[1.0, 2.0], [3.0, 4.0]])
    >>> table.n_features, table.people.unit, table.single_rows
    (2, 'record', True)
    """

    rows: Any
    """What knows its columns: ``n_features``, ``names`` and, if ``single_rows``, ``blocks``."""
    people: People = RECORDS
    names: Sequence[str] | None = None
    """Of the features, if they have names."""
    types: Sequence[str] | None = None
    """Of the features, as declared; ``None`` is ``float64``."""
    target: bool = False
    target_name: str | None = None
    categories: Sequence[NDArray[Any]] | None = None
    """Of each column, where rows are codes: positions among these, or -1."""
    schema: Any = None
    """Where rows are cells: the schema as it is for this table, with its types."""
    texts: Texts | None = None
    """Where categories of columns are to be found: their values."""
    owned: Owned | None = None
    """The rows by person, where a private fit hides persons."""
    elsewhere: Source | None = None
    """Who answers for rows that this process does not sum: they may be asked for sums only."""

    @property
    def single_rows(self) -> bool:
        """Whether rows may be looked at one by one, as predictions do."""
        return self.elsewhere is None

    @property
    def n_features(self) -> int:
        """How many features."""
        return int(self.rows.n_features) - self.target

    @property
    def header(self) -> Header | None:
        """Which names messages may quote, if they are of a CSV file."""
        return getattr(self.rows, "header", None)

    def source(self, n_jobs: int | None = None, key: bytes | None = None) -> Source:
        """Who answers stages about these rows.

        ``n_jobs`` threads, where they are ours; records draw their cells of a partition from
        ``key``, or a fresh one.
        """
        if self.elsewhere is not None:
            return self.elsewhere
        owned = self.owned
        source = (
            LocalSource(self.rows, n_jobs, key=key)
            if owned is None
            else LocalSource(owned.rows, n_jobs, owned.persons, owned.owner, key)
        )
        if self.texts is None:
            return source
        return ListedSource(source, self.texts, None if owned is None else owned.owner)

    def any(self, function: Callable[[Block, Scratch], bool], n_jobs: int | None) -> bool:
        """Whether a function says so of any block: for exact fits.

        Of rows that are elsewhere their source says it, if it can; else nobody knows.
        """
        if self.single_rows:
            return any(self.each(function, n_jobs))
        asked = getattr(self.elsewhere, "any", None)
        return asked is not None and bool(asked(function))

    def each(
        self, function: Callable[[Block, Scratch], T], n_jobs: int | None, block_rows: int = 4088
    ) -> Iterator[T]:
        """A function of every block of rows, in order: predictions, for the holder of the rows."""
        if not self.single_rows:
            raise TypeError("these rows can be summed, but not looked at one by one")
        return LocalSource(self.rows, n_jobs).each(function, block_rows)


def refuse_looks(params: Mapping[str, Any], who: str) -> None:
    """Raise for a start that looks at single rows, where ``who`` gives sums only."""
    start = params.get("init_params", "kmeans")
    if start != "kmeans":
        raise ValueError(
            f"init_params={start!r} looks at single rows, or goes by their numbers, and {who} "
            "gives sums only; use 'kmeans', or weights_init, means_init and precisions_init"
        )
    start = params.get("init", "split")
    if callable(start) or (isinstance(start, str) and start != "split"):
        raise ValueError(
            f"init={start!r} looks at single rows, and {who} gives sums only; use 'split', "
            "or an array of centres"
        )


def refuse_other_target(given: str | None, policy: Policy, opened: str) -> None:
    """Raise for rows opened without a target by who needs one, and with one by who needs none.

    Else the last feature would be taken for the target, or the target for a feature. ``opened`` is
    the function that opened them.
    """
    if policy.target and given is None:
        raise ValueError(
            f"{policy.name} needs a target, and the rows were opened without one: "
            f"{opened}(..., target=...) names its column"
        )
    if given is not None and policy.estimator is not None and not policy.target:
        raise ValueError(
            f"the rows were opened with the target {given!r}, and {policy.name} takes none: open "
            f"them without it, {opened}(..., without={given!r}), or leave target= out, which makes "
            "it a feature"
        )


Opener = Callable[[Any, Any, Any, Any, Policy], Table]
_kinds: list[tuple[Callable[[Any], bool], Opener]] = []
_sums_only: list[Opener] = []


def register(
    takes: type | Callable[[Any], bool], opens: Opener, *, sums_only: bool = False
) -> None:
    """Teach :func:`open_table` another kind of rows, which is asked before those known so far.

    Parameters
    ----------
    takes : type or callable
        The type of X, or whether X is of this kind; without importing what it is made by.
    opens : callable
        ``opens(X, y, weight, groups, policy)`` gives the table. It refuses what the policy does not
        allow; rows that are elsewhere are ``Table(X, elsewhere=source)``.
    sums_only : bool
        Whether such rows are always elsewhere, so that ``opens`` raises if a fitted model is to
        predict them. ``fit_predict`` and its like then raise the same before they fit.

    Examples
    --------
    >>> class Readings:  # of an instrument; some library's
    ...     def __init__(self, values):
    ...         self.values = values
    >>> def opens(X, y, weight, groups, policy):
    ...     return open_table([[v, v * v] for v in X.values], y, weight, groups, policy)
    >>> register(Readings, opens)
    >>> open_table(Readings([1.0, 2.0, 3.0])).n_features
    2
    """
    _kinds.insert(0, (partial(_is_a, takes) if isinstance(takes, type) else takes, opens))
    if sums_only:
        _sums_only.append(opens)


def _is_a(kind: type, X: Any) -> bool:
    return isinstance(X, kind)


def kinds() -> tuple[tuple[Callable[[Any], bool], Opener], ...]:
    """What recognises each kind of rows, and what opens it; the first that does counts."""
    return tuple(_kinds)


def refuse_sums_only(X: Any, policy: Policy) -> None:
    """Raise what a prediction would raise if these rows can be summed only; open nothing else."""
    opens = next(opens for takes, opens in _kinds if takes(X))
    if opens in _sums_only:
        opens(X, None, None, None, replace(policy, private=False, fitted=True))


def open_table(
    X: Any, y: Any = None, weight: Any = None, groups: Any = None, policy: Policy | None = None
) -> Table:
    """Whatever holds rows, as a table; checked as the policy asks, before anything is spent.

    Parameters
    ----------
    X : array, frame, path, lazy frame, rows opened before, or what was registered
    y : array-like, str or None
        With a target: its values, or the column that it is. Else ignored, unless it names a column
        of a file to leave out.
    weight, groups : array-like, str or None
        How much each record counts, and whom it belongs to; or the column that says so.
    policy : Policy, optional
        What the rows are for; by default they are taken as they are.

    Examples
    --------
    >>> open_table([[1.0, 2.0], [3.0, 4.0]]).n_features
    2
    """
    opens = next(opens for takes, opens in _kinds if takes(X))
    return opens(X, y, weight, groups, policy or Policy())


def read_rows(X: Any, weight: Any = None) -> Rows:
    """Rows of an array, a frame or a file; what already is rows passes through.

    Examples
    --------
    >>> import numpy as np
    >>> read_rows(np.zeros((3, 2))).n_features
    2
    """
    rows: Rows = open_table(X, weight=weight).rows
    return rows
