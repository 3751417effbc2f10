"""Rows on a cluster: their partitions are summed by workers, and only sums reach the driver.

For every stage the query goes to the scheduler once, and from there to each worker once. A task per
partition sums it (:mod:`privem.data.partitions`), and totals are merged, with their rounding
errors, in a tree that the numbers of the partitions decide. So the sum depends on the partitions
alone, to the last bit: not on how many workers there are, nor on which tasks are done again as
a worker was lost. Tasks draw no noise. The driver does, once, when it has the sum, so no sum is
released twice.

Partitions are those of dask collections (here) or of Parquet files (:mod:`privem.data.cluster`).
They may be read anew in every pass, as files are, or be persisted in the memory of the cluster.
Either way a partition must hold the same rows whenever it is computed. How many rows it holds may
be unknown to dask, and to the driver it stays unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np

from ..core import Block, Release, Scratch, Stage
from .frame import is_number
from .kinds import refuse_flags, refuse_other_columns
from .partitions import (
    AnyBlock,
    Form,
    Gaps,
    RowsRefused,
    Sums,
    Tasks,
    Work,
    merge_flags,
    merge_sums,
    partition,
    read_partition,
    unpack,
)
from .sampling import fresh_key
from .sums import publish
from .table import People, Policy, Table, refuse_looks, register
from .values import is_dask, quietly, refuse_kind, refuse_missing, type_name

T = TypeVar("T")
# How many totals one task merges.
_FAN = 8
# More bytes than this are no recipe for a partition but data, which stay where they are.
_RECIPE = 2**18
_PREDICT = (
    "X.map_partitions(model.predict), or of an array X.map_blocks(model.predict, drop_axis=1, "
    "dtype=int), predicts there"
)
_INSTEAD = (
    "write it to Parquet files and pass their folder, which is read in blocks; or pass X.compute()"
)


@dataclass(frozen=True)
class DaskRows:
    """Partitions as rows that are elsewhere, and the source that answers for them.

    Without a ``distributed.Client``, dask computes partitions on threads of this process.
    """

    form: Form
    parts: Sequence[Any] = field(repr=False)
    """Of each partition X, y and weight: delayed, or a recipe in bytes."""
    n_features: int
    """How many columns, the target included."""
    trial: str = "X.map_partitions(len).compute(), of an array X.sum().compute(), tries it"
    """How to find out why partitions cannot be summed."""
    key: bytes = field(default_factory=fresh_key, repr=False)

    @property
    def names(self) -> Sequence[str] | None:
        """Of the columns, the target's last."""
        return self.form.names

    def blocks(self, rows: int) -> NoReturn:
        """Not here."""
        raise TypeError("rows on a cluster can be summed, but not looked at one by one")

    def missing(self, target: bool) -> tuple[bool, bool, bool]:
        """Whether a feature, a target and a weight is missing: one pass, and three signs leave."""
        x, y, weight = self._reduce(Gaps(target), merge_flags)
        return bool(x), bool(y), bool(weight)

    def any(self, function: Callable[[Block, Scratch], bool]) -> bool:
        """Whether a function says so of any block; for exact fits."""
        return bool(self._reduce(AnyBlock(function), merge_flags)[0])

    def release(self, stage: Stage) -> Release[Any]:
        """Sum the stage's query over all partitions, apply its noise here, publish."""
        query, private = stage.query, stage.noise.private
        total = self._reduce(Sums(query, private, self.key), merge_sums)
        with quietly():
            return publish(stage, total, self.n_features)

    def _reduce(self, function: Callable[..., T], merge: Callable[[Sequence[T]], T]) -> T:
        """A function of every partition, merged in a tree fixed by their numbers."""
        import cloudpickle
        import dask

        packed = cloudpickle.dumps(Work(self.form, function))
        work = dask.delayed(unpack, pure=False)(packed)
        here, there, merged = (
            dask.delayed(task, pure=False) for task in (read_partition, partition, merge)
        )
        level = [
            here(work, number, part) if isinstance(part, bytes) else there(work, number, *part)
            for number, part in enumerate(self.parts)
        ]
        while len(level) > 1:
            level = [merged(level[at : at + _FAN]) for at in range(0, len(level), _FAN)]
        refused = problem = ""
        try:
            found: T = dask.compute(level[0], traverse=False)[0]
        except RowsRefused as error:
            refused = str(error)
        except Exception as error:
            if self.form.exact:
                raise
            problem = type(error).__name__
        # Raised out here, as the new error would hold on to the old one: whatever that says, and
        # the frames of its traceback, may quote a record.
        if refused:
            raise ValueError(refused)
        if problem:
            raise RuntimeError(
                f"the rows could not be summed on the cluster ({problem}): can every "
                "worker import privem and compute every partition, and is its memory large "
                f"enough? {self.trial}"
            )
        return found


def open_dask(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """A dask array or data frame as a table; rows stay with the workers."""
    if not _is(X, "Array", "DataFrame", "Series"):
        refuse_kind(X)
    refuse_tasks(groups, policy, _PREDICT, _INSTEAD)
    if _is(X, "DataFrame"):
        X, columns, target, weights = _chosen(X, y, weight, groups, policy)
        types = [type_name(X.dtypes[name]) for name in columns]
        refuse_flags(columns, types, policy)
    else:
        columns, target, weights = None, None, None
        types = _array_types(X, policy)
    if not types:
        raise ValueError("Found array with 0 feature(s): X has no columns")
    y = _beside(X, y, "y") if policy.target and target is None else None
    if policy.target and y is None and target is None:
        raise ValueError(
            "this estimator requires y to be passed, but the target y is None; for a frame, y may "
            "be the name of its target column"
        )
    weight = None if weights else _beside(X, weight, "sample_weight")
    called = target or (None if y is None else _name(y))
    names = None if columns is None else (*columns, *[called or "target"] * policy.target)
    chosen = None if columns is None else tuple(columns)
    form = Form(chosen, names, target, weights, policy.exact, policy.missing, len(types))
    rows = DaskRows(form, _parts(X, y, weight), len(types) + policy.target)
    count = X.shape[0] if _is(X, "Array") and not np.isnan(X.shape[0]) else None
    weighted = weights is not None or weight is not None
    people = People("record", None if count is None else int(count), weighted)
    return table_of(rows, people, types, called, policy)


def table_of(
    rows: DaskRows, people: People, types: Sequence[str], target: str | None, policy: Policy
) -> Table:
    """The table of a cluster's rows, checked as the policy asks."""
    columns = rows.form.columns
    names = None if columns is None else list(columns)
    table = Table(rows, people, names, list(types), policy.target, target, elsewhere=rows)
    if policy.fitted:
        refuse_other_columns(table, policy)
    if policy.private:
        refuse_missing(rows, policy.target, policy.missing)
    return table


def refuse_tasks(groups: Any, policy: Policy, predict: str, instead: str) -> None:
    """Raise for what cannot be asked of a cluster, before it is asked for anything.

    ``predict`` and ``instead`` say how to predict, and what to do where single rows are needed.
    """
    if policy.fitted and not policy.private:
        raise TypeError(
            f"the rows of X stay with the workers of a cluster: {predict}; likewise score_samples"
        )
    if policy.schema is not None or policy.coded:
        raise TypeError(
            f"{policy.name} does not take rows on a cluster, as its columns are no numbers: "
            f"{instead}"
        )
    if policy.party:
        raise TypeError(f"a party holds rows of its own, and none on a cluster: {instead}")
    if policy.devices is not None:
        raise TypeError("trust='local' is of people who answer one by one, not of a cluster")
    if policy.header is not None:
        raise TypeError("header= is for files of text, which are not read on a cluster")
    if groups is not None and not policy.exact:
        raise TypeError(
            "groups= does not go with rows on a cluster: rows of one person may lie in several "
            f"partitions, where nobody could hide the person as a whole; {instead}"
        )
    refuse_looks(policy.params, "a cluster")


def _array_types(X: Any, policy: Policy) -> list[str]:
    """The type of each column of an array, or of a series."""
    if X.ndim > 2 or (X.ndim == 1 and policy.estimator is not None):
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data: "
            "array.reshape(-1, 1) if it is a single feature"
        )
    meta = getattr(X, "_meta", None)
    if not is_number(X.dtype) or not (hasattr(meta, "to_frame") or isinstance(meta, np.ndarray)):
        raise ValueError(
            f"X holds {X.dtype}, in pieces of type {type(meta).__name__}; expected real numbers "
            "in NumPy's arrays"
        )
    if X.ndim == 2 and np.isnan(X.shape[1]):
        raise ValueError("the number of columns of X is unknown: call X.compute_chunk_sizes()")
    return [type_name(X.dtype)] * (1 if X.ndim == 1 else int(X.shape[1]))


def _chosen(
    X: Any, y: Any, weight: Any, groups: Any, policy: Policy
) -> tuple[Any, list[str], str | None, str | None]:
    """A frame of the columns that are used; the features, the target and the weight by name."""
    X = X.rename(columns=str)
    names = list(X.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice in {', '.join(names)}")
    aside = {"y": y, "sample_weight": weight, "groups": groups}
    for argument, name in aside.items():
        if isinstance(name, str) and name not in names:
            raise ValueError(
                f"{argument} names a column {name!r}, and X has none; it has {', '.join(names)}"
            )
    target = y if policy.target and isinstance(y, str) else None
    weights = weight if isinstance(weight, str) else None
    apart = [name for name in aside.values() if isinstance(name, str)]
    columns = [name for name in names if name not in apart]
    if policy.columns is not None and set(policy.columns) <= set(columns):
        columns = list(policy.columns)
    used = list(dict.fromkeys([*columns, *(n for n in (target, weights) if n is not None)]))
    for name in used:
        if not is_number(X.dtypes[name]):
            raise ValueError(
                f"could not convert column {name!r} of type {X.dtypes[name]} to float: select "
                "numeric columns, or convert the others first, X.astype(...)"
            )
    return X[used], columns, target, weights


def _beside(X: Any, values: Any, what: str) -> Any:
    """A target or weights whose partitions go with those of X, or ``None``."""
    if values is None:
        return None
    if not _is(values, "Array", "Series"):
        raise TypeError(
            f"{what} of a dask collection is a dask array or series with the same partitions, or, "
            f"of a dask frame, the name of a column; not a {type(values).__name__}"
        )
    if (
        not is_number(values.dtype)
        or values.ndim > 2
        or (values.ndim == 2 and values.shape[1] != 1)
    ):
        raise ValueError(f"{what} must be numbers, one per row")
    if _is(values, "Array"):
        values = values.reshape(-1) if values.ndim == 2 else values
        if _is(X, "Array") and not np.isnan([X.shape[0], values.shape[0]]).any():
            if X.shape[0] != values.shape[0]:
                raise ValueError(
                    f"Found input variables with inconsistent numbers of samples: {what} has not "
                    "as many rows as X"
                )
            values = values.rechunk((X.chunks[0],))
    divided = [getattr(each, "divisions", (None,)) for each in (X, values)]
    differ = None not in (divided[0][0], divided[1][0]) and divided[0] != divided[1]
    if differ or values.npartitions != _row_blocks(X):
        raise ValueError(f"{what} must have the same partitions as X: rows go together by position")
    return values


def _row_blocks(X: Any) -> int:
    return int(X.numblocks[0] if hasattr(X, "numblocks") else X.npartitions)


def _name(values: Any) -> str | None:
    """The name of a series."""
    return str(values.name) if hasattr(values, "to_frame") and values.name is not None else None


def _parts(*collections: Any) -> list[Any]:
    """Each partition of X, y and weight: delayed or, where workers can compute it alone, a recipe.

    By a recipe a partition is computed by the task that sums it. Else dask would keep it until that
    task has run, maybe on another worker.
    """
    import cloudpickle
    from dask.utils import ensure_dict

    columns, graph = [], {}  # type: list[list[Any]], dict[Any, Any]
    for each in collections:
        if getattr(each, "ndim", 1) == 2 and hasattr(each, "numblocks") and each.numblocks[1] > 1:
            each = each.rechunk({1: -1})
        if each is None:
            columns.append([None] * len(columns[0]))
            continue
        columns.append(list(np.ravel(each.to_delayed())))
        graph |= ensure_dict(columns[-1][0].dask)
    parts = list(zip(*columns, strict=True))
    recipes, seen = [], set()  # type: list[bytes], set[Any]
    for part in parts:
        keys = [None if delayed is None else delayed.key for delayed in part]
        needed = _needed(graph, [key for key in keys if key is not None])
        if needed is None or seen & needed.keys():
            return parts
        seen |= needed.keys()
        recipes.append(cloudpickle.dumps(Tasks(needed, keys)))
        if len(recipes[-1]) > _RECIPE:
            return parts
    return recipes


def _needed(graph: dict[Any, Any], keys: list[Any]) -> dict[Any, Any] | None:
    """The tasks that compute these keys; ``None`` if some lie in the memory of the cluster."""
    needed: dict[Any, Any] = {}
    while keys:
        key = keys.pop()
        if key in needed:
            continue
        task: Any = graph.get(key)
        if not hasattr(task, "dependencies"):
            return None
        needed[key] = task
        keys.extend(task.dependencies)
    return needed


def _is(X: Any, *names: str) -> bool:
    """Whether ``X`` is one of these collections; dask is loaded by whoever has one."""
    homes = {"Array": "dask.array", "DataFrame": "dask.dataframe", "Series": "dask.dataframe"}
    known = (getattr(sys.modules.get(homes[name]), name, ()) for name in names)
    return any(isinstance(X, kind) for kind in known)


register(is_dask, open_dask, sums_only=True)
