"""Parquet files that the workers of a cluster read themselves, as one process reads files.

A partition is consecutive rows of the files: whole row groups, as many as make a task worth its
overhead. The files' footers say where they begin, so that partitions do not depend on the cluster.
Workers read them in batches (:mod:`privem.data.lazy`), which costs them less than a data frame of
dask does: that is made by pandas, partition by partition, in fresh memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from .dask import DaskRows, refuse_tasks, table_of
from .files import found_files, named_columns, read_file
from .kinds import refuse_flags
from .lazy import reading
from .partitions import FilePart, Form
from .table import People, Policy, Table, refuse_other_target, register

# A partition has at least so many numbers (32 MB), if the files have: some 0.1 s of a worker.
_NUMBERS = 2**22


@dataclass(frozen=True)
class ClusterRows:
    """Rows of Parquet files, to be read and summed by the workers of a cluster."""

    names: tuple[str, ...]
    """Of all columns, the target's last."""
    types: tuple[str, ...]
    weight: str | None
    target: str | None
    parts: tuple[FilePart, ...] = field(repr=False)

    @property
    def n_features(self) -> int:
        """How many columns, the target included."""
        return len(self.names)


def on_cluster(
    path: str | Path,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    without: str | Sequence[str] | None = None,
    target: str | None = None,
    partition_rows: int | None = None,
) -> ClusterRows:
    """Parquet files that the workers of a Dask cluster read and sum; to be passed to ``fit``.

    Every worker must find the files at the same path as this process, on a shared file system.
    Here only their footers are read. Without a ``distributed.Client``, threads of this process do
    the work.

    Parameters
    ----------
    path : str or Path
        A ``.parquet`` file, or a folder of them, taken in the order of their names.
    columns : sequence of str, optional
        Which columns, in which order. All but the weight and the target by default.
    weight : str, optional
        A column that holds each record's weight.
    without : str or sequence of str, optional
        Columns to leave out.
    target : str, optional
        A column that a regression is to explain; it comes last.
    partition_rows : int, optional
        At least so many rows are summed by one task; row groups are not divided. Sums depend on it
        in their last bits.

    Examples
    --------
    >>> import polars as pl, privem, tempfile
    >>> path = tempfile.mkdtemp()
    >>> pl.DataFrame({"x": [0.0, 1.0, 2.0]}).write_parquet(f"{path}/rows.parquet")
    >>> float(privem.KMeans(1, epsilon=None).fit(on_cluster(path)).cluster_centers_[0, 0])
    1.0
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(
            f"path is a {type(path).__name__}; expected the path of one Parquet file, or of a "
            "folder of them"
        )
    label = repr(str(path))
    if "://" in label:
        raise ValueError(
            f"{label} is an address: workers read paths of a shared file system. For object "
            "storage, pass dask.dataframe.read_parquet(...) to fit"
        )
    if partition_rows is not None and not (isinstance(partition_rows, int) and partition_rows >= 1):
        raise ValueError(f"partition_rows must be an integer of at least 1, got {partition_rows!r}")
    files = [file.absolute() for file in found_files(Path(path), label, None)]
    if files[0].suffix != ".parquet":
        raise ValueError(f"{label}: workers read Parquet files; expected one, or a folder of them")
    _refuse_columns(files, columns, {weight, target}, named_columns(without))
    rows: Any = read_file(path, columns, weight, without, target=target)
    least = partition_rows or _NUMBERS // rows.n_features
    parts = tuple(_parts(files, least)) or (FilePart((str(files[0]),), 0, 0, (0,)),)
    return ClusterRows(tuple(rows.names), tuple(rows.types), weight, target, parts)


def _refuse_columns(
    files: Sequence[Path],
    columns: Sequence[str] | None,
    aside: AbstractSet[str | None],
    without: Sequence[str],
) -> None:
    """Raise for files of different columns, and for a column that is used and holds no numbers."""
    schemas = []
    for file in files:
        with reading(repr(str(file)), "is not a readable table"):
            schemas.append(dict(pl.scan_parquet([file], glob=False).collect_schema()))
        if schemas[-1] != schemas[0]:
            raise ValueError(
                f"{str(file)!r} has columns of other names or types than {str(files[0])!r}: "
                f"{_difference(schemas[-1], schemas[0])}"
            )
    for name, kind in schemas[0].items():
        used = name not in without if columns is None else name in columns
        if (used or name in aside) and not (kind.is_numeric() or kind == pl.Boolean):
            raise ValueError(
                f"could not convert column {name!r} of type {kind} to float: choose columns, or "
                "write it as numbers first"
            )


def _difference(found: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """The first column in which a file differs from the first one, and how."""
    name = next(n for n in [*first, *found] if found.get(n) != first.get(n))
    said = [each.get(name, "not there") for each in (found, first)]
    return f"column {name!r} is {said[0]} in the one and {said[1]} in the other"


def _parts(files: Sequence[Path], least: int) -> Iterator[FilePart]:
    """Consecutive row groups of so many rows, or few more."""
    paths: list[str] = []
    sizes: dict[str, int] = {}
    start = count = 0

    def part() -> FilePart:
        return FilePart(tuple(paths), start, count, tuple(sizes[path] for path in paths))

    for file in files:
        at, groups = 0, _row_groups(file)
        sizes[str(file)] = sum(groups)
        for size in groups:
            if not count:
                paths, start = [], at
            if str(file) not in paths[-1:]:
                paths.append(str(file))
            at += size
            count += size
            if count >= least:
                yield part()
                count = 0
    if count:
        yield part()


def _row_groups(file: Path) -> list[int]:
    """How many rows each of a file's row groups has."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ImportError("rows on a cluster need dask: pip install 'privem[dask]'") from None
    try:
        footer = parquet.read_metadata(file)
    except (ArrowException, OSError):
        raise ValueError(f"{str(file)!r} is not a readable table") from None
    return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]


def open_cluster(X: ClusterRows, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """Such rows as a table; they stay with the workers."""
    import cloudpickle

    instead = "pass the path itself, which is read in blocks"
    refuse_tasks(groups, policy, f"predict in this process, {instead}", instead)
    if weight is not None:
        raise TypeError("give the weight when opening the rows: on_cluster(weight=...)")
    if policy.target and y is not None:
        raise TypeError("give the target when opening the rows, on_cluster(target=...), and no y")
    refuse_other_target(X.target, policy, "on_cluster")
    n = X.n_features - policy.target
    if n < 1:
        raise ValueError("there is no column besides the target")
    columns, target = X.names[:n], X.names[-1] if policy.target else None
    refuse_flags(columns, X.types[:n], policy)
    form = Form(columns, X.names, target, X.weight, policy.exact, policy.missing, n)
    trial = "is every file at the same path for every worker?"
    rows = DaskRows(form, [cloudpickle.dumps(part) for part in X.parts], X.n_features, trial)
    people = People("record", None, X.weight is not None)
    return table_of(rows, people, X.types[:n], target, policy)


register(ClusterRows, open_cluster, sums_only=True)
