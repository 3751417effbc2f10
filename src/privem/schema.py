"""Schemas: what the columns of a table are, as public knowledge.

A schema says which values a column may have. It is written by a person who knows what was asked or
measured, and never read off the rows: it becomes public with the model.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .data.cells import Cells, for_type
from .data.columns import Category, Column, Number, wrong
from .data.constraints import Constraint, check, constraints_of
from .data.declared import column_of, gaps_of, refuse_blanks, refuse_name
from .data.decode import decode
from .data.drafts import draft_of, toml_text
from .data.given import allowed
from .data.raw import bounded
from .files import write_whole


@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """What the columns of a table are: bounds, categories, flags, dates, with or without gaps.

    Everything in a schema is public: write down what is known without looking at the rows, such as
    the answers that a form allows. What nobody knows may be left open, and a private fit finds and
    publishes it. Values beyond the bounds count as the nearest bound; a private
    fit counts a category that is not declared as the first one or, if the column may have gaps, as
    missing, and an exact fit refuses it.

    Parameters
    ----------
    columns : mapping of str to declaration
        What each column is, in the order of synthetic tables:

        - ``(low, high)``: numbers between two bounds; whole numbers if the table that is fitted
          declares an integer type. ``(int, low, high)`` are whole numbers and ``(float, low,
          high)`` are not, whatever the table says.
        - ``("2019-01-01", "2025-12-31")``: dates, also as ``datetime.date``. With a time of day
          (``"2019-01-01T00:00"``), or as ``datetime.datetime``: times, as fine as the bounds are
          written. Those with an offset (``Z``) are UTC, in which zoned times are compared.
        - ``["Female", "Male"]``: categories, text or numbers, at least two.
        - ``bool``: yes or no.
        - ``int`` or ``float``: numbers whose bounds a private fit finds, out of its budget.
          ``(0, None)``, or in files ``[0, inf]``: it finds the upper one.
        - ``str``: text whose categories a private fit finds, those that many records have; all
          others count as one more category.
        - ``None``: the column is left out.
        - A mapping, as in files: ``{"type": "int", "bounds": [0, 90], "missing": True}`` or
          ``{"categories": [...]}``. Types are ``int``, ``float``, ``bool``, ``str``, ``date``,
          ``datetime`` and ``skip``. With ``"others": True``, the last of the ``categories`` stands
          for all values that are not listed. Numbers may have ``decimals``, so many digits behind
          the point, also in synthetic tables. Dates have a ``format`` (``"%m/%d/%Y"``) if they are
          text that is written otherwise than 2025-01-31, 2025/01/31, 31.01.2025 or 31 jan 2025.
    missing : iterable of str or bool, default=()
        Names of columns in which values may be missing; ``True``: all of them. Gaps in other
        columns are refused.
    constraints : list, default=()
        What is known to hold between columns, and holds in whatever is drawn: ``"years_employed <=
        age"`` for numbers, dates or times; ``"education -> education_num"`` where the first column
        determines the second, ``{"education -> education_num": {"Masters": 14, ...}}`` if it is
        known how.

    Examples
    --------
    >>> schema = Schema(
    ...     {
    ...         "age": (15, 95),
    ...         "hours": (int, 0, 100),
    ...         "sex": ["Female", "Male"],
    ...         "smoker": bool,
    ...         "admitted": ("2019-01-01", "2025-12-31"),
    ...     },
    ...     missing=["hours"],
    ... )
    >>> schema.names
    ['age', 'hours', 'sex', 'smoker', 'admitted']
    >>> schema.cells[1]
    Cells(name='hours', cells=102, ordered=True, missing=True)
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: tuple[Column, ...]
    """What each column is, in order."""
    skipped: tuple[str, ...] = ()
    """Columns that are left out on purpose."""
    constraints: tuple[Constraint, ...] = ()
    """What holds between columns."""

    def __init__(
        self,
        columns: Mapping[str, Any],
        missing: Iterable[str] | bool = (),
        constraints: Iterable[Any] = (),
    ) -> None:
        if not isinstance(columns, Mapping):
            raise TypeError(
                f"a schema is a mapping from column names, got {type(columns).__name__}: "
                'Schema({"age": (15, 95), "sex": ["Female", "Male"]})'
            )
        refuse_blanks(columns)
        made = {name: column_of(name, given) for name, given in columns.items()}
        for name, column in made.items():
            refuse_name(name, column)
        gaps = gaps_of(missing, made)
        kept = [
            replace(each, missing=each.missing or each.name in gaps)
            for each in made.values()
            if each
        ]
        skipped = [name for name, each in made.items() if each is None]
        self._set(kept, skipped, constraints_of(constraints, kept))

    def _set(
        self, columns: Sequence[Column], skipped: Sequence[str], constraints: Sequence[Constraint]
    ) -> None:
        if not columns:
            raise ValueError("a schema needs at least one column")
        check(constraints, columns)
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "skipped", tuple(skipped))
        object.__setattr__(self, "constraints", tuple(constraints))

    def _with(self, columns: Sequence[Column]) -> Schema:
        """The same with other columns, and the constraints that are about them."""
        made, names = object.__new__(Schema), {column.name for column in columns}
        kept = [each for each in self.constraints if names.issuperset(each.names)]
        made._set(columns, self.skipped, kept)
        return made

    @classmethod
    def of(cls, given: Any) -> Schema:
        """A schema, or what it is made of: a mapping, or the path of a file.

        Examples
        --------
        >>> Schema.of({"smoker": bool})
        Schema({'smoker': bool})
        """
        if isinstance(given, Schema):
            return given
        return cls.read(given) if isinstance(given, str | os.PathLike) else cls(given)

    @property
    def names(self) -> list[str]:
        """Of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def missing(self) -> list[str]:
        """Of the columns in which values may be missing."""
        return [column.name for column in self.columns if column.missing]

    @property
    def cells(self) -> tuple[Cells, ...]:
        """How many fine cells each column has; raises where bounds or categories are not known."""
        return tuple(Cells.of(column) for column in self.columns)

    @property
    def without_bounds(self) -> list[str]:
        """Columns whose bounds are to be estimated."""
        return [c.name for c in self.columns if isinstance(c, Number) and not c.known]

    @property
    def without_categories(self) -> list[str]:
        """Columns whose categories are to be found."""
        return [c.name for c in self.columns if isinstance(c, Category) and not c.known]

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"the schema has no column {name!r}; it has {', '.join(self.names)}")

    def __repr__(self) -> str:
        parts = [f"{column.name!r}: {column.spelled()}" for column in self.columns]
        parts += [f"{name!r}: None" for name in self.skipped]
        gaps = f", missing={self.missing!r}" if self.missing else ""
        held = [constraint.written() for constraint in self.constraints]
        known = f", constraints={held!r}" if held else ""
        return f"Schema({{{', '.join(parts)}}}{gaps}{known})"

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> Schema:
        """The schema with bounds for columns that had none; whole numbers get whole ones.

        Examples
        --------
        >>> Schema({"age": int, "height": float}).with_bounds({"age": (0.5, 99.5)})
        Schema({'age': (int, 0, 100), 'height': float})
        """
        self._refuse_others(bounds, self.without_bounds, "bounds")
        filled = [
            bounded(c, *bounds[c.name]) if isinstance(c, Number) and c.name in bounds else c
            for c in self.columns
        ]
        return self._with(filled)

    def with_categories(
        self, categories: Mapping[str, Sequence[Any]], others: bool = False
    ) -> Schema:
        """The schema with categories for columns that had none.

        ``others``: the last one of each column stands for all values that are not listed.

        Examples
        --------
        >>> Schema({"city": str}).with_categories({"city": ["Bonn", "Cork"]})
        Schema({'city': ['Bonn', 'Cork']})
        """
        self._refuse_others(categories, self.without_categories, "categories")
        found: dict[str, Any] = {name: self[name] for name in categories}
        for name, values in categories.items():
            found[name] = replace(found[name], values=tuple(values), others=others)
        return self._with([found.get(c.name, c) for c in self.columns])

    @staticmethod
    def _refuse_others(given: Mapping[str, Any], open_: Sequence[str], what: str) -> None:
        for name in given:
            if name not in open_:
                raise ValueError(f"column {name!r} is not one whose {what} are to be found")

    def select(self, names: Iterable[str]) -> Schema:
        """The schema of some of the columns, in this order."""
        return self._with([self[name] for name in names])

    def without(self, names: Iterable[str]) -> Schema:
        """The schema with some of the columns left out on purpose."""
        aside = list(names)
        made = self.select(name for name in self.names if name not in aside)
        made._set(made.columns, (*self.skipped, *aside), made.constraints)
        return made

    def for_types(self, types: Mapping[str, Any]) -> Schema:
        """The schema for a table whose columns have these (polars) types.

        Numbers without a word on it are whole if their type is, and synthetic tables get these
        types. What is declared, or known from an earlier table, stays.

        Examples
        --------
        >>> import polars as pl
        >>> Schema({"age": (15, 95)}).for_types({"age": pl.Int16})
        Schema({'age': (int, 15, 95)})
        """
        return self._with([for_type(column, types[column.name]) for column in self.columns])

    def decode(self, cells: NDArray[Any], rng: Any, library: str = "polars") -> Any:
        """A table of values drawn from fine cells; see :func:`privem.data.decode.decode`.

        Examples
        --------
        >>> schema = Schema({"age": (int, 15, 95), "sex": ["Female", "Male"]})
        >>> schema.decode(np.array([[16, 0], [0, 1]]), np.random.default_rng(0)).rows()
        [(31, 'Female'), (15, 'Male')]
        """
        return decode(self.columns, cells, rng, library)

    def firsts(self, name: str) -> Any:
        """The first value of each fine cell of a column, as a polars series; null for missing.

        Examples
        --------
        >>> Schema({"smoker": bool}, missing=True).firsts("smoker").to_list()
        [False, True, None]
        """
        column = self[name]
        return decode([column], np.arange(column.size)[:, None], _Lowest())[name]

    def find(self, name: str, given: Any) -> NDArray[np.int64]:
        """The fine cells that a condition on one column allows.

        Parameters
        ----------
        name : str
        given : value, pair, list or None
            One value; a pair ``(low, high)`` of numbers, dates or times, all cells that overlap it,
            where ``None`` is the bound itself; a list of values; or ``None``: missing.

        Examples
        --------
        >>> schema = Schema({"age": (int, 15, 95), "sex": ["Female", "Male"]})
        >>> schema.find("age", (93, None)), schema.find("sex", "Male")
        (array([78, 79, 80]), array([1]))
        """
        return allowed(self[name], given)

    def to_dict(self) -> dict[str, Any]:
        """The schema as values that JSON and TOML can hold; types of a fitted table included."""
        columns: dict[str, Any] = {column.name: column.as_dict() for column in self.columns}
        held = [constraint.written() for constraint in self.constraints]
        known = {"constraints": held} if held else {}
        return known | {"columns": columns | {name: {"type": "skip"} for name in self.skipped}}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Schema:
        """What :meth:`to_dict` gave, or a person wrote in the same form."""
        columns = saved.get("columns")
        unknown = [key for key in saved if key not in ("columns", "constraints")]
        if unknown or not isinstance(columns, Mapping):
            wrongly = f"{unknown[0]!r} is neither" if unknown else "[columns] is not there"
            raise ValueError(
                "a schema file has one table, [columns], with a line for each column; and before "
                f"it, if there are any, constraints = [...]; {wrongly}"
            )
        for name, given in columns.items():
            if not isinstance(given, Mapping):
                raise wrong(name, f"expected a table like {{bounds = [0, 90]}}, got {given!r}")
        return cls(columns, constraints=saved.get("constraints", ()))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """A schema from a ``.toml`` or ``.json`` file that :meth:`write` or a person wrote."""
        file = _schema_path(path)
        try:
            text = file.read_text("utf-8")
            saved = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        except ValueError as problem:
            form = file.suffix[1:].upper()
            raise ValueError(f"{str(path)!r} is not valid {form}: {problem}") from None
        try:
            return cls.from_dict(saved if isinstance(saved, Mapping) else {})
        except (ValueError, TypeError) as problem:
            raise ValueError(f"{str(path)!r}: {problem}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a ``.toml`` or ``.json`` file.

        Examples
        --------
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "schema.toml"
        >>> Schema({"age": (int, 0, 90), "sex": ["f", "m"]}, missing=["sex"]).write(path)
        >>> print(path.read_text())
        [columns]
        age = {type = "int", bounds = [0, 90]}
        sex = {categories = ["f", "m"], missing = true}
        <BLANKLINE>
        """
        saved = self.to_dict()
        if _schema_path(path).suffix == ".json":
            text = json.dumps(saved, indent=2, ensure_ascii=False) + "\n"
        else:
            text = toml_text(saved)
        with write_whole(path) as temporary:
            temporary.write_text(text, "utf-8")

    @staticmethod
    def draft(source: Any, header: bool | None = None) -> str:
        r"""A schema file (TOML) for a person to complete: names and declared types, no values.

        Parameters
        ----------
        source : frame, lazy frame or path
            Only the types that frames and Parquet files declare are used; of a CSV file the names.
        header : bool, optional
            Whether the first line of a CSV file is a header. ``True`` has to be said, because the
            names are shown; ``False``: columns are called x0, x1, ...

        Returns
        -------
        str
            With a ``"?"`` for what only a person can know.

        Examples
        --------
        >>> import polars as pl
        >>> people = pl.DataFrame({"age": [31, 47], "sex": ["f", "m"]})
        >>> print(Schema.draft(people).partition("[columns]\n")[2])
        age = {type = "int", bounds = "?", missing = "?"}
        sex = {categories = "?", missing = "?"}
        <BLANKLINE>
        """
        return draft_of(source, header)


class _Lowest:
    """Draws the lowest number always."""

    def random(self, size: int) -> NDArray[np.float64]:
        return np.zeros(size)


def _schema_path(path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    if file.suffix not in (".toml", ".json"):
        raise ValueError(f"{str(path)!r}: a schema is a .toml or .json file")
    return file
