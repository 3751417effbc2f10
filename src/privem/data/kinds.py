"""The kinds of rows that are read in this process: arrays, frames, files, rows opened before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from .categories import category_type, coded, read_categories
from .files import group_column, is_npy, read_file
from .frame import numeric, without_column
from .lazy import ScanRows
from .mixed import as_frame, open_cells
from .persons import Owned, as_labels, column_labels
from .sums import ArrayRows
from .table import Declared, People, Policy, Table, kinds, refuse_other_target, register
from .values import (
    CONTAINS_NAN,
    as_array,
    as_numbers,
    as_target,
    as_weights,
    is_frame,
    is_lazy,
    is_on_device,
    is_table,
    quietly,
    refuse_infinite,
    refuse_kind,
    refuse_missing,
    type_name,
    unmasked,
    without_values,
)
from .wording import undeclared_gap


def _open_memory(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """An array, or what becomes one, or a data frame."""
    if policy.schema is not None:
        return _open_cells(X, y, weight, groups, policy, policy.schema)
    refuse_kind(X)
    _refuse_header(policy)
    framed = is_frame(X)
    if framed and isinstance(groups, str):
        X, column = without_column(X, groups, "groups")
        groups = column_labels(column)
    if policy.coded:
        return _code(X, weight, groups, policy)
    if framed and policy.target and isinstance(y, str):
        X, y = without_column(X, y, "y")
    target = as_target(y) if policy.target else None
    checked = _validated(X, policy)
    n = int(checked.shape[0])
    groups = None if groups is None else as_labels(groups, n)
    weight = as_weights(weight, n, policy.finite)
    names = called = _names(X, policy)
    if framed:
        checked, types = numeric(checked)
        called = [str(name) for name in X.columns]
        refuse_flags(called, types, policy)
    else:
        # The array's own type, before it became floating-point; a list declares none.
        types = [type_name(getattr(X, "dtype", None))] * checked.shape[1]
    rows = ArrayRows(checked, weight, called, framed and policy.finite, groups, declared=types)
    if policy.finite and not framed and policy.estimator is not None:
        for _ in replace(rows, check=True).blocks(65_536):
            pass
    if target is not None:
        rows = _joined(rows, target, y)
        if policy.exact and not np.isfinite(target).all():
            raise ValueError("Input y contains NaN or infinity; remove or impute such rows first")
    return replace(_held(rows, policy, names), target_name=_name(y) if policy.target else None)


def refuse_flags(names: Sequence[str] | None, types: Sequence[str] | None, policy: Policy) -> None:
    """Raise for a column that is declared as yes or no, if the model is none for such."""
    flags = [name for name, kind in zip(names or (), types or (), strict=False) if kind == "bool"]
    if flags and not policy.flags:
        raise ValueError(
            f"column {flags[0]!r} is declared as yes or no: components of a {policy.name} would "
            "shrink onto the two values. Fit a privem.TableMixture (--model table), which takes "
            "columns of any kind; or convert the column to numbers, if that is meant"
        )


def _validated(X: Any, policy: Policy) -> Any:
    """An array or a frame, of the form that scikit-learn asks of them if an estimator reads them.

    What is not finite is refused by ourselves: our error names the row and the column.
    """
    if policy.estimator is None:
        return X if is_frame(X) else _plain_array(X, policy)
    form: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}
    form["accept_sparse"] = "csr" if policy.sparse else False
    if policy.coded:
        form["dtype"] = None
    if is_frame(X):
        form = {"skip_check_array": True}
    try:
        # Converting a number to another type may overflow, and say so of one record.
        with nullcontext() if policy.finite else quietly():
            checked = validate_data(policy.estimator, unmasked(X), reset=not policy.fitted, **form)
    except (ValueError, OverflowError) as error:
        if policy.finite or is_frame(X):
            raise
        raise without_values(error) from None
    if not checked.shape[0]:
        raise ValueError("Found array with 0 sample(s): the frame has no rows")
    return checked


def _names(X: Any, policy: Policy) -> list[str] | None:
    """Column names of an array or a frame: those that scikit-learn has found, or all there are."""
    if policy.estimator is not None:
        return policy.seen
    if is_frame(X):
        return [str(name) for name in X.columns]
    name = getattr(X, "name", None)  # of a series
    return None if name is None else [str(name)]


def _plain_array(X: Any, policy: Policy) -> Any:
    """Rows and columns; numbers, unless they are categories. Single numbers are a column."""
    if policy.sparse and issparse(X):
        sparse: Any = X
        return sparse.tocsr()
    try:
        values = as_array(X)
        if values.dtype.kind not in "fiub" and not policy.coded:
            values = as_numbers(values)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("x must be numbers") from None
    if values.ndim not in (1, 2):
        raise ValueError(f"x has shape {values.shape}; expected one or two dimensions")
    return values[:, None] if values.ndim == 1 else values


def _joined(rows: ArrayRows, target: Any, y: Any) -> ArrayRows:
    """Rows with their target as the last column."""
    if len(target) != rows.count:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: "
            f"[{rows.count}, {len(target)}]; y has shape {target.shape}"
        )
    names = None if rows.names is None else [*rows.names, _name(y) or "target"]
    return replace(rows, target=target, names=names)


def _name(y: Any) -> str | None:
    name = getattr(y, "name", None)
    return None if name is None else str(name)


def _open_file(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """A path, or a lazy frame."""
    if policy.schema is not None:
        return _open_cells(X, y, weight, groups, policy, policy.schema)
    if policy.coded:
        return _open_words(X, y, weight, groups, policy)
    if policy.target and not isinstance(y, str):
        raise TypeError(_TARGET_OF_A_FILE)
    named = y if isinstance(y, str) else None
    rows: Any = read_file(
        X,
        columns=None if is_npy(X) else policy.columns,
        weight=weight,
        without=None if policy.target else named,
        groups=group_column(X, groups),
        target=named if policy.target else None,
        header=policy.header,
    )
    if is_npy(X) and groups is not None:
        rows = replace(rows, groups=groups)
    refuse_flags(rows.names, rows.types, policy)
    return _held(rows, policy, rows.names)


def _open_words(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """A file of categories, read whole. Private fits count missing ones as not declared."""
    if is_lazy(X):
        return _open_memory(X.collect(), y, weight, groups, policy)
    path = Path(X)
    table, weight, groups = read_categories(
        path,
        columns=None if is_npy(X) else policy.columns,
        without=y if isinstance(y, str) else None,
        weight=weight,
        groups=groups,
        private=not policy.exact,
        header=policy.header,
        categories=policy.categories,
    )
    return _code(table, weight, groups, policy, csv=path.suffix == ".csv")


def _code(
    X: Any, weight: Any, groups: Any, policy: Policy, names: Any = None, csv: bool = False
) -> Table:
    """A table of categories as codes."""
    framed = is_frame(X)
    checked = _validated(X if framed or hasattr(X, "dtype") else as_array(X), policy)
    columns = [checked[c].to_numpy() for c in checked.columns] if framed else list(checked.T)
    n = len(checked)
    groups = None if groups is None else as_labels(groups, n)
    weight = as_weights(weight, n, policy.exact)
    names = names or _names(X, policy)
    # By position where a name may be the first line of a file that has no header.
    positions = [f"number {j + 1}" if csv else str(j) for j in range(len(columns))]
    called = positions if csv or names is None else names
    codes, known = coded(columns, names, called, policy.categories, policy.exact)
    # As declared: a guess from the values would depend on single ones.
    kinds = list(checked.dtypes) if framed else [getattr(X, "dtype", None)] * len(columns)
    types = [category_type(values, kind) for values, kind in zip(known, kinds, strict=True)]
    rows = ArrayRows(codes, weight, names, groups=groups, declared=types)
    return replace(_held(rows, policy, names), categories=known)


def _open_cells(
    X: Any, y: Any, weight: Any, groups: Any, policy: Policy, schema: Declared
) -> Table:
    """A mixed table, as numbers of the cells that its schema cuts columns into."""
    rows, known, texts = open_cells(X, y, weight, groups, policy, schema)
    return replace(_held(rows, policy, rows.names), schema=known, texts=texts)


def framed(X: Any, policy: Policy) -> Any:
    """What has columns with names, as it is; an array as a frame with columns x0, x1, ...

    Examples
    --------
    >>> framed([[1.5, 2.0]], Policy()).columns
    ['x0', 'x1']
    """
    if is_frame(X) or is_table(X) or _is_rows(X) or _elsewhere(X):
        return X
    refuse_kind(X)
    made = X if hasattr(X, "dtype") else as_array(X)
    return as_frame(_validated(made, replace(policy, coded=True)))


def _elsewhere(X: Any) -> bool:
    """Whether X is of a kind that was registered by others."""
    return next(opens for takes, opens in kinds() if takes(X)) is not _open_memory


def _is_rows(X: Any) -> bool:
    """Whether ``X`` is rows to be read in blocks, by its type: dask's arrays have blocks too."""
    return callable(getattr(type(X), "blocks", None)) and hasattr(type(X), "n_features")


def _open_rows(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """Rows that were opened before: their weights, groups and target are their own."""
    if policy.schema is not None:
        return _open_cells(X, y, weight, groups, policy, policy.schema)
    _refuse_header(policy)
    rows, own = X, getattr(X, "groups", None)
    if weight is not None:
        raise TypeError("give the weight when opening the rows: read_file(weight=...)")
    if isinstance(groups, str) or (groups is not None and own is not None and policy.party):
        raise TypeError("name the groups once, when opening the rows: read_file(groups=...)")
    if groups is not None and own is None:
        if isinstance(rows, ArrayRows):
            rows = replace(rows, groups=groups)
        elif not policy.exact:
            raise TypeError("name the groups when opening the rows: read_file(groups=...)")
    if policy.coded:
        if not isinstance(rows, ArrayRows):
            raise TypeError("categories come in an array, a frame or a file, not in opened rows")
        return _code(rows.X, rows.weight, rows.groups, policy, rows.names)
    if policy.target and y is not None:
        rows = _with_target(rows, y, policy)
    elif isinstance(rows, ScanRows) and not policy.party:
        refuse_other_target(rows.target, policy, "read_file")
    return _held(rows, policy, rows.names)


def _with_target(rows: Any, y: Any, policy: Policy) -> Any:
    if not policy.party:
        raise TypeError("give the target when opening the rows, read_file(target=...), and no y")
    if isinstance(y, str):
        if not rows.names or list(rows.names)[-1] != y:
            raise ValueError(f"the target {y!r} must be the last column of rows that were opened")
        return rows
    if not isinstance(rows, ArrayRows):
        raise TypeError(_TARGET_OF_A_FILE)
    return _joined(rows, as_target(y), y)


def _held(rows: Any, policy: Policy, names: Sequence[str] | None) -> Table:
    """Rows of this process as a table: checked as the policy asks, by person if they have any.

    ``names`` of all columns, or of the features; a target's is the last of them.
    """
    if getattr(rows, "check", False) and not policy.finite:
        rows = replace(rows, check=False)
    n = rows.n_features - policy.target
    if policy.target and n < 1:
        raise ValueError("there is no column besides the target")
    types = getattr(rows, "types", None)
    weighted = getattr(rows, "weight", None) is not None
    table = Table(
        rows,
        People("record", getattr(rows, "count", None), weighted),
        None if names is None else list(names[:n]),
        None if types is None else list(types[:n]),
        policy.target,
        None if names is None or not policy.target else str(names[-1]),
    )
    if policy.fitted and policy.schema is None:
        refuse_other_columns(table, policy)
    if policy.private:
        schema = policy.schema
        said = CONTAINS_NAN if schema is None else undeclared_gap(schema.columns)
        # Frames with a schema were looked at when they were opened, and may hold NaN now.
        looked = schema is not None and isinstance(rows, ArrayRows)
        refuse_missing(rows, policy.target, policy.missing or looked, said)
    elif policy.party:
        _read_once(rows)
    elif policy.missing and policy.target and not policy.fitted:
        refuse_infinite(rows)
    return table if policy.exact else _of_people(table, policy)


def _of_people(table: Table, policy: Policy) -> Table:
    """The table by person or device; the owners of rows are read before the first release."""
    rows, weighted = table.rows, table.people.weighted
    owners = getattr(rows, "owners", None)
    labels = None if owners is None else owners()
    if policy.devices is not None:
        if labels is not None or weighted:
            raise ValueError(
                "trust='local' has no groups and no sample weights: one record a person"
            )
        count = sum(len(block.X) for block in rows.blocks(65_536))
        people = People("person", count, False)
        return replace(table, people=people, elsewhere=policy.devices(rows))
    if labels is None:
        return table
    if policy.party and weighted:
        raise ValueError(
            "a party's rows have weights or persons, not both: of a person's weights the cap "
            "would have to be agreed on"
        )
    owned = Owned.of(rows, labels, policy.params.get("max_weight", 1.0))
    return replace(table, people=People("person", owned.count, weighted), owned=owned)


def _read_once(rows: Any) -> None:
    """Read once whatever may fail to be read: the owner is told, and never a server.

    Later it would be a refusal in a private fit, caused by one record.
    """
    dtype = getattr(getattr(rows, "X", None), "dtype", None)
    if getattr(dtype, "kind", "O") not in "biuf":
        for block in rows.blocks(2**15):
            np.asarray(block.X, dtype=np.float64)


def refuse_other_columns(table: Table, policy: Policy) -> None:
    """Raise if columns are not as many as in the fit or, where they have names, not the same."""
    expected = policy.estimator.n_features_in_
    if table.n_features != expected:
        target = " and a target" if policy.target else ""
        raise ValueError(
            f"X has {table.n_features} features{target}, but {policy.name} is expecting "
            f"{expected} features as input"
        )
    if None not in (table.names, policy.seen) and table.names != policy.seen:
        raise ValueError(
            "The feature names of the rows should match those of the fit, in the same order; open "
            f"them with read_file(path, columns={policy.seen})"
        )


def _open_device(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """A tensor, or what lies on an accelerator."""
    from .device import open_device

    return open_device(X, y, weight, groups, policy)


def _refuse_header(policy: Policy) -> None:
    if policy.header is not None:
        raise TypeError("header= is for files: these rows were read before")


_TARGET_OF_A_FILE = "the target of a file is one of its columns: give its name as y (a string)"

register(lambda X: True, _open_memory)
register(_is_rows, _open_rows)
register(is_table, _open_file)
register(is_on_device, _open_device)
