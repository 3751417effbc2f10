"""A party's rows: numbers, with a target as their last column, or codes of categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core import Rows
from ...data import ArrayRows, FrameRows, LocalSource, is_table, read_file, read_rows
from ...data.array import as_numbers, unmasked
from ...data.categories import read_categories
from ...data.frame import is_frame, is_lazy
from ...data.joined import JoinedRows
from ...data.owned import Owned, group_column, labels_of, length_of
from ...data.persons import split_frame
from ...data.read import refuse_kind
from ...data.scan import ScanRows
from ...models.categorical_mixture.model import codes_of, declared, told_apart
from ..agreement import Agreement
from .memory import fingerprint

Categories = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class PartyRows:
    """A party's rows, and what their columns mean."""

    rows: Rows
    target: bool = False
    """Whether the last column is a target."""
    categories: Categories | None = None
    """Of each column, where rows are codes."""
    undeclared: bool = False
    """Whether there are values that are none of the categories. Secret."""
    owned: Owned | None = None
    """The rows by person, where persons are hidden rather than records."""

    @classmethod
    def of(
        cls, rows: Any, y: Any, categories: Any, groups: Any, header: bool | None = None
    ) -> PartyRows:
        """Read whatever a party is given. Errors are for its owner alone."""
        if is_lazy(rows) and categories is not None:
            rows = rows.collect()
        if is_table(rows):
            rows, groups = _open(rows, y, categories, groups, header)
        elif header is not None:
            raise TypeError("header= is for files: these rows were read before")
        rows, labels = _split(rows, groups)
        if categories is not None:
            if y is not None:
                raise ValueError("rows of categories have no target: y=None")
            held = cls._coded(rows, categories)
        elif y is None:
            held = cls(_readable(_unchecked(read_rows(rows))))
        else:
            whole = _with_name(rows, y) if isinstance(y, str) else _joined(rows, y)
            held = cls(_readable(_unchecked(whole)), True)
        return held if labels is None else held._by_person(labels)

    @property
    def weighted(self) -> bool:
        """Whether records have weights."""
        return getattr(self.rows, "weight", None) is not None

    @property
    def persons(self) -> bool:
        """Whether persons are hidden, rather than records."""
        return self.owned is not None

    def unlike(self, agreement: Agreement) -> str:
        """How the rows differ from what was agreed, in words; empty if they do not."""
        if self.weighted and not agreement.weighted:
            return "its rows have weights, the agreement has none"
        if self.target != agreement.target:
            have = ("a target, the agreement has none", "no target (y=), the agreement has one")
            return f"its rows have {have[0 if self.target else 1]}"
        if self.persons != agreement.persons:
            have = ("persons (groups=), the agreement is about records", "no persons (groups=)")
            return f"its rows have {have[0 if self.persons else 1]}"
        if self.categories != agreement.categories:
            return "its rows have other categories= than were agreed on"
        return ""

    def _by_person(self, labels: Any) -> PartyRows:
        if self.weighted:
            raise ValueError(
                "a party's rows have weights or persons, not both: of a person's weights the cap "
                "would have to be agreed on"
            )
        return replace(self, owned=Owned.of(self.rows, labels))

    def drawn_by(self, draw: Callable[[int], bytes]) -> PartyRows:
        """The same rows; the one row that stands for a person is drawn from these bytes."""
        return self if self.owned is None else replace(self, owned=self.owned.drawn_by(draw))

    @property
    def fingerprint(self) -> bytes:
        """A hash of all rows, as they are now. Secret."""
        if self.owned is None:
            return fingerprint(self.rows)
        return fingerprint(self.owned.rows, self.owned.owner)

    def source(
        self, private: bool, n_jobs: int | None, key: bytes, draw: Callable[[int], bytes]
    ) -> LocalSource:
        """What answers questions; in private questions each person counts once.

        Records draw their cells from ``key``, and their pairs from ``draw``.
        """
        if self.owned is None or not private:
            return LocalSource(self.rows, n_jobs, key=key, draw=draw)
        return self.owned.source(n_jobs, key, draw)

    @classmethod
    def _coded(cls, rows: Any, categories: Any) -> PartyRows:
        columns, names, weight, n = _columns(rows)
        known = declared(categories, None, len(columns))
        codes = np.empty((n, len(columns)), dtype=np.int32)
        for j, (column, values) in enumerate(zip(columns, known, strict=True)):
            codes[:, j] = codes_of(told_apart(column, str(j), strict=False), values)
        plain = plain_categories(known)
        return cls(ArrayRows(codes, weight, names), False, plain, bool((codes < 0).any()))


def _open(path: Any, y: Any, categories: Any, groups: Any, header: Any) -> tuple[Rows, Any]:
    """Rows of a file, a target last, and groups where they are values rather than a column."""
    named = group_column(path, groups)
    if categories is not None:
        rows: Rows = category_rows(Path(path), categories, groups=named, header=header)
    else:
        target = y if isinstance(y, str) else None
        rows = read_file(path, groups=named, target=target, header=header)
    return rows, groups if named is None else None


def _split(rows: Any, groups: Any) -> tuple[Any, Any]:
    """Rows without the column that names persons, and the person of each row, or ``None``."""
    if groups is None:
        return rows, labels_of(rows, None)
    if isinstance(rows, ScanRows) or labels_of(rows, None) is not None:
        raise TypeError("name the groups once, when opening the rows: read_file(groups=...)")
    if not isinstance(groups, str):
        return rows, groups
    if is_frame(rows):
        return split_frame(rows, groups)
    raise TypeError(
        "groups names a column, which arrays do not have: pass the values; of rows that were "
        "opened, name it there: read_file(groups=...)"
    )


def category_rows(
    path: Path,
    categories: Any,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    groups: str | None = None,
    header: bool | None = None,
) -> ArrayRows:
    """A .csv or .parquet file of categories, read whole, for a party that declares them.

    Parameters
    ----------
    path : Path
    categories : list
        Those of each column, or one list for all.
    columns : sequence of str, optional
        Which columns; all but the weight and the groups by default.
    weight : str, optional
        A column that says how much each record counts.
    groups : str, optional
        A column that says which person each record belongs to.
    header : bool, optional
        Whether the first line of a CSV file is a header; see :func:`privem.data.read_file`.
    """
    # A missing value counts like one that is not declared.
    table, weights, owners = read_categories(
        path,
        columns=columns,
        weight=weight,
        groups=groups,
        private=True,
        header=header,
        categories=categories,
    )
    if not is_frame(table):
        raise ValueError(f"{str(path)!r}: categories are read from a .csv or .parquet file")
    return ArrayRows(table.to_numpy().astype(object), weights, table.columns, groups=owners)


def plain_categories(given: Any) -> Categories:
    """Categories of each column as plain values, as they are agreed on."""
    found = tuple(tuple(np.asarray(part, dtype=object).tolist()) for part in given)
    for value in (value for part in found for value in part):
        if not isinstance(value, str | int | float) or value in (np.inf, -np.inf) or value != value:
            raise ValueError(f"a category is text or a finite number, not {value!r}")
    return found


def code_bounds(categories: Categories) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds of the codes of such columns; -1 stands for none of the categories."""
    return tuple(-1.0 for _ in categories), tuple(len(part) - 1.0 for part in categories)


def _unchecked(rows: Rows) -> Rows:
    """Do not check values: queries map bad ones by a fixed rule, and exact sums show them."""
    if isinstance(rows, JoinedRows):
        return replace(rows, rows=replace(rows.rows, check=False))
    if isinstance(rows, ArrayRows | FrameRows | ScanRows):
        return replace(rows, check=False)
    return rows


def _readable(rows: Rows) -> Rows:
    """Read once whatever may fail to be read: the owner is told, and never a server.

    Later it would be a refusal in a private fit, caused by one record.
    """
    plain = rows.rows if isinstance(rows, JoinedRows) else rows
    if not (isinstance(plain, ArrayRows) and plain.X.dtype.kind in "biuf"):
        for block in rows.blocks(2**15):
            np.asarray(block.X, dtype=np.float64)
    return rows


def _with_name(rows: Any, y: str) -> Rows:
    """Rows whose column ``y`` comes last."""
    if is_frame(rows):
        if y not in rows.columns:
            raise ValueError(f"the frame has no column {y!r}; it has {list(rows.columns)}")
        return FrameRows(rows[[*(name for name in rows.columns if name != y), y]])
    opened = read_rows(rows)
    if not opened.names or list(opened.names)[-1] != y:
        raise ValueError(f"the target {y!r} must be the last column of rows that were opened")
    return opened


def _joined(rows: Any, y: Any) -> Rows:
    """Rows of an array or a frame, followed by their targets."""
    opened = read_rows(rows)
    if not isinstance(opened, ArrayRows | FrameRows):
        raise TypeError("the target of a file is one of its columns: give its name as y")
    try:
        target = as_numbers(unmasked(y))
    except ValueError:
        raise ValueError("y must be numbers") from None
    n = length_of(opened)
    if target.shape != (n,):
        raise ValueError(f"y has shape {target.shape}, expected ({n},)")
    name = str(getattr(y, "name", None) or "target")
    return JoinedRows(replace(opened, weight=None), target, opened.weight, name)


def _columns(rows: Any) -> tuple[list[Any], Sequence[str] | None, Any, int]:
    """Columns of values, their names, weights, and how many rows."""
    if isinstance(rows, ArrayRows):
        return list(rows.X.T), rows.names, rows.weight, len(rows.X)
    weight = None
    if is_frame(rows):
        names = [str(name) for name in rows.columns]
        return [rows[name].to_numpy() for name in rows.columns], names, weight, len(rows)
    refuse_kind(rows)
    # Object dtype for lists: NumPy would turn all entries into text because of one.
    table = np.asarray(unmasked(rows), dtype=None if hasattr(rows, "dtype") else object)
    if table.ndim != 2:
        raise ValueError(f"rows have shape {table.shape}; expected two dimensions")
    return list(table.T), None, weight, len(table)


def column_bounds(bounds: Any, target_bounds: Any, d: int, target: bool) -> tuple[Any, Any]:
    """Bounds of all columns, a target's last."""
    if target_bounds is None:
        return _bounds(bounds, d)
    if not target or bounds is None:
        raise ValueError("target_bounds= go with bounds=, and with parties that have a target (y=)")
    (low, high), (least, most) = _bounds(bounds, d - 1), _bounds(target_bounds, 1)
    return (*low, *least), (*high, *most)


def _bounds(bounds: Any, d: int) -> tuple[Any, Any]:
    if bounds is None:
        return None, None
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (d,)) for b in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be (low, high), numbers or {d} of them each") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, and low below high")
    return tuple(low.tolist()), tuple(high.tolist())
