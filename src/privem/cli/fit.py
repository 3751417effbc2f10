"""``privem fit``: from options to an estimator, and from a file to a model and a summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars
from click import UsageError
from sklearn.base import clone
from sklearn.utils import get_tags

from ..data import read_file
from ..data.categories import read_categories
from ..data.header import numbered
from ..data.kinds import refuse_flags
from ..data.mixed import open_columns
from ..data.values import positions
from ..declaration import Declaration
from ..estimator.verbose import watching
from ..schema import Schema
from ..selection.result import Selection
from ..selection.select import select
from .failures import ExitCode, failing, reading_data, writing_file
from .options import COLUMNS, SETTINGS, flag, refuse_others, setting, takes
from .planning import Foresight
from .progress import FitProgress, WatchedRows
from .summary import summary_of

# What is said of the file, and not of the model.
_OF_FILES = ("columns", "exclude", "types", "header")
_NEEDED = {"components": "how many there are", "target": "the column to be explained"}


@dataclass(frozen=True)
class Request:
    """A model, and what was said about it; what does not go together is refused."""

    model: Declaration
    exact: bool
    given: Mapping[str, Any]
    """Settings by name (see :data:`privem.cli.options.SETTINGS`), those that were given."""
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    header: bool | None = None
    spare: frozenset[str] = frozenset()
    """Settings that privem.toml says and nobody else: heeded where they mean something."""

    @classmethod
    def of(
        cls, model: Declaration, exact: bool, spare: Collection[str] = (), **options: Any
    ) -> Request:
        """From all options of a command, most of which nobody gave."""
        given = {key: value for key, value in options.items() if value not in (None, {})}
        for name in spare:
            idle = name in SETTINGS and not takes(model, name)
            private = name in SETTINGS and setting(name).private
            if idle or (exact and private) or (name == "max_weight" and "weight" not in given):
                given.pop(name, None)
        file = {name: given.pop(name) for name in _OF_FILES if name in given}
        return cls(model, exact, given, spare=frozenset(spare), **file)

    @property
    def target(self) -> str | None:
        """The column that a regression explains."""
        return self.given.get("target")

    @property
    def several(self) -> range | None:
        """The numbers of components to choose from, if there is more than one."""
        count = self.given.get("components")
        return count if isinstance(count, range) and len(count) > 1 else None

    def estimator(self) -> Any:
        """The estimator, its parameters checked; of several, the largest."""
        self._refuse_other_fits()
        if self.several is not None:
            self._refuse_choice()
        refuse_others(self.model, self.given)
        for name, why in _NEEDED.items():
            if takes(self.model, name) and name not in self.given and not self.model.schema:
                raise UsageError(f"--model {self.model.command} needs {flag(name)}: {why}")
        self._refuse_idle()
        parameters = {
            str(self.model.count) if name == "components" else name: value
            for name, value in self.given.items()
            if name not in (*COLUMNS, "bounds", "categories")  # which are told per column
        }
        if isinstance(self.given.get("components"), range):
            parameters[str(self.model.count)] = self.given["components"][-1]
        if self.exact:
            parameters["epsilon"] = None
        if self.model.schema:
            parameters["target"] = self.target
            parameters["schema"] = self._schema()
        if self.model.categories:
            parameters["categories"] = list(self.given.get("categories", {}).values()) or None
        estimator = self.model.estimator(**parameters)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # The fit says it again, and then it is noted.
                estimator._check_parameters()
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
        return estimator

    def _schema(self) -> Any:
        """The schema of the columns that are not left out; ``None`` if there is none."""
        schema = read_schema(self.given.get("schema"))
        if schema is None or not self.exclude:
            return schema
        unknown = [n for n in self.exclude if n not in (*schema.names, *schema.skipped)]
        if unknown:
            raise UsageError(
                f"--exclude {unknown[0]!r} is no column of the schema; it has "
                f"{', '.join(schema.names)}"
            )
        if set(schema.names) <= set(self.exclude):
            raise UsageError("--exclude leaves no column of the schema")
        return schema.without(self.exclude)

    def _refuse_other_fits(self) -> None:
        """An option that the fit would not heed is an error: somebody believes in it."""
        if self.exact:
            for name in self.given:
                # An exact fit has bounds for a background only.
                heeded = name == "bounds" and self.given.get("background")
                if setting(name).private and not heeded:
                    raise UsageError(
                        f"--exact fits without privacy, {flag(name)} is for private fits: leave "
                        "one of them out"
                    )
        # A model without --n-iter iterates on what was released, and stops there.
        elif "tol" in self.given and self.model.schema:
            raise UsageError("--tol is for exact fits: give --exact")
        elif "tol" in self.given and takes(self.model, "n_iter"):
            raise UsageError(
                "--tol is for exact fits: a private one takes --n-iter; or give --exact"
            )

    def _refuse_choice(self) -> None:
        """Refuse to choose a number of components where nobody can."""
        if self.exact:
            raise UsageError("--components A..B chooses privately: give one number with --exact")
        if self.model.schema or not hasattr(self.model.estimator, "private_score"):
            raise UsageError(f"--model {self.model.command} takes one number of --components")

    def _refuse_idle(self) -> None:
        """Options that count only beside others, or do not go with others."""
        given = self.given
        if given.get("n_jobs") == 0:
            raise UsageError("--n-jobs must not be 0; -1 means every core")
        if "max_weight" in given and "weight" not in given:
            raise UsageError("--max-weight caps what --weight says: give both")
        for name in given:
            for other, value in setting(name).needs.items():
                if given.get(other) != value:
                    raise UsageError(f"{flag(name)} is for {flag(other)} {value}")
        if "clip" in given and given.get("mechanism") == "robust":
            raise UsageError("--clip is not for --mechanism robust")
        if given.get("trust") == "local":
            self._refuse_local()
        if self.model.categories and not self.exact and "categories" not in given:
            raise UsageError(
                f"a private fit of --model {self.model.command} needs --category COLUMN=A,B,... "
                "for every column: to read categories off the data would give rare ones away"
            )
        if self.model.schema and not self.exact and "schema" not in given:
            raise UsageError(
                f"a private fit of --model {self.model.command} needs --schema FILE: privem schema "
                "DATA -o schema.toml begins one"
            )

    def _refuse_local(self) -> None:
        given, bounds = self.given, self.given.get("bounds", {})
        if "groups" in given or "weight" in given:
            raise UsageError(
                "--trust local takes neither --groups nor --weight: one record a person"
            )
        if "neighbours" in given:
            raise UsageError("--trust local hides any change of a record: leave out --neighbours")
        if takes(self.model, "bounds") and not bounds:
            raise UsageError(
                "--trust local needs --bound for every column (and the target): nobody may look at "
                "all records to find them"
            )
        if self.model.target and self.target not in bounds:
            raise UsageError(
                f"--trust local needs --bound {self.target}=LOW:HIGH too, of the target"
            )

    def check_columns(self) -> None:
        """Refuse columns that are asked to be two things; and what needs a count of a file."""
        given, chosen = self.given, self.columns or ()
        weight, target, groups = (given.get(name) for name in ("weight", "target", "groups"))
        if given.get("delta") == 0 and not {"max_rows", "bounds"} <= set(given):
            raise UsageError(
                "--delta 0 needs --bound for every column, and --max-rows: nobody counts a file's "
                "rows beforehand"
            )
        if self.exclude and self.columns is not None:
            raise UsageError("--columns says which columns to take: leave out --exclude")
        for name in self.exclude:
            if name in (weight, target, groups):
                raise UsageError(f"--exclude {name!r} is also --weight, --target or --groups")
        if weight is not None and weight in chosen:
            raise UsageError(f"--weight {weight!r} is also one of --columns")
        if target is not None and target in (weight, *chosen):
            raise UsageError(f"--target {target!r} is also --weight or one of --columns")
        if groups is not None and groups in (weight, target, *chosen):
            raise UsageError(f"--groups {groups!r} is also --weight, --target or one of --columns")
        if self.model.schema and (self.types or self.columns is not None):
            raise UsageError(
                "a schema says which columns there are, and what: no --type, --columns"
            )
        if self.types and self.model.categories:
            raise UsageError("--type is for columns of numbers; categories need none")

    def set_columns(self, estimator: Any, columns: Sequence[str], named: bool = True) -> None:
        """Give an estimator what was said of single columns: bounds, or categories."""
        bounds, categories = (dict(self.given.get(name, {})) for name in ("bounds", "categories"))
        if "bounds" in self.spare:  # of all tables of the project
            bounds = {n: each for n, each in bounds.items() if n in (*columns, self.target)}
        if "categories" in self.spare:
            categories = {name: each for name, each in categories.items() if name in columns}
        if self.target in bounds:
            estimator.target_bounds = bounds.pop(self.target)
        if bounds:
            _refuse_odd("--bound", bounds, columns)
            low, high = zip(*(bounds[name] for name in columns), strict=True)
            estimator.bounds = bounds if named else (list(low), list(high))
        if categories:
            _refuse_odd("--category", categories, columns)
            estimator.categories = [categories[name] for name in columns]


def _refuse_odd(option: str, given: Mapping[str, Any], columns: Sequence[str]) -> None:
    unknown, without = sorted(set(given) - set(columns)), sorted(set(columns) - set(given))
    wrong = [f"not fitted: {', '.join(unknown)}"] * bool(unknown)
    # By position: the names may be the first line of a file that has no header.
    wrong += [f"without one: {positions(without, columns)} of those fitted"] * bool(without)
    if wrong:
        raise UsageError(f"{option} is for every column fitted or for none; {'; '.join(wrong)}")


def fit_file(
    request: Request, data: Path, destination: Path, quiet: bool, foresight: Foresight
) -> tuple[Any, dict[str, Any]]:
    """Fit a file and save the model; the estimator, and a summary as JSON values."""
    estimator = request.estimator()
    start, choice = time.perf_counter(), None
    if request.several:
        # Larger ones that are not worth it are ruled out by the choice itself.
        foresight = replace(foresight, about=f"with the fewest, {request.several[0]}: ")
    with (
        reading_data(),
        warnings.catch_warnings(record=True) as caught,
        FitProgress(_most_passes(estimator), quiet, timed=request.exact) as progress,
        foresight.watching(estimator, progress.pause),
        watching(estimator, progress.watch),
    ):
        warnings.simplefilter("always")
        if request.model.schema:
            rows, weight = fit_table(request, estimator, data)
        elif request.model.categories:
            (estimator, choice), rows, weight = _fit_categories(request, estimator, data)
        else:
            opened = _open(request, estimator, data)
            # Only an exact fit counts its rows, on the screen or in the summary, or minds having
            # none.
            watched: Any = WatchedRows(opened, progress.seen) if request.exact else opened
            # A .npy file has no names: the ones that privem sample gives its columns.
            names = watched.names or numbered(watched.n_features)
            features = names[:-1] if request.target else names
            request.set_columns(estimator, features, named=watched.names is not None)
            estimator, choice = _fit_best(request, estimator, watched)
            rows, weight = (watched.count, watched.total_weight) if request.exact else (0, 0.0)
    seconds = time.perf_counter() - start
    with writing_file(destination):
        estimator.save(destination)
    summary = summary_of(request, estimator, caught, weight if request.exact else None)
    summary |= {"data": str(data)}
    if choice is not None:
        summary |= estimator.selection_
    if request.exact:
        # Of a private fit nobody paid for the number of rows, or for the time it took.
        summary |= {"rows": rows, "total_weight": weight, "seconds": round(seconds, 6)}
    return estimator, summary


def _most_passes(estimator: Any) -> int | None:
    """The most iterations of a fit; those of a private one follow from the noise it gets."""
    exact = estimator.epsilon is None
    most: int | None = estimator.max_iter if exact else getattr(estimator, "n_iter", None)
    return most


def _open(request: Request, estimator: Any, data: Path) -> Any:
    """Rows of a file, a target as their last column."""
    if request.target is not None and data.suffix == ".npy":
        raise ValueError(f"{str(data)!r}: a .npy file has no column names, so no target column")
    special = {name: request.given.get(name) for name in COLUMNS}
    special |= {"types": request.types, "header": request.header, "without": request.exclude}
    rows: Any = read_file(data, request.columns, **special)
    # A type that was asked for is meant.
    types = [
        "" if n in request.types else kind
        for n, kind in zip(rows.names or (), rows.types or (), strict=False)
    ]
    refuse_flags(rows.names, types, estimator._policy(not request.exact))
    # The estimator of a private fit refuses missing values itself, and maps others by a fixed rule:
    # an error would be a release. Where values may be missing, it looks itself as well.
    if not request.exact or get_tags(estimator).input_tags.allow_nan:
        rows = replace(rows, check=False)
    return rows


def read_schema(given: Path | Schema | None) -> Any:
    """The schema of a file; one that was read before, or none, as it is."""
    if given is None or isinstance(given, Schema):
        return given
    with failing(ExitCode.USAGE, OSError, ValueError, TypeError):
        return Schema.read(given)


def fit_table(request: Request, estimator: Any, data: Path) -> tuple[int, float]:
    """Fit a file with a schema; of an exact fit, how many rows and their weight."""
    special = {"sample_weight": request.given.get("weight"), "groups": request.given.get("groups")}
    table = as_table(data, request.header)
    if estimator.schema is None and request.exclude:
        table = open_columns(data, request.header).scan.drop(request.exclude)
    estimator.fit(table, **special)
    if not request.exact:
        return 0, 0.0
    rows = open_columns(data, request.header).scan.select(polars.len()).collect().item()
    return int(rows), float(estimator.n_records_)


def as_table(data: Path, header: bool | None) -> Any:
    """A file for a model with a schema; opened here where somebody said what its first line is."""
    return data if header is None else open_columns(data, header).scan


def _fit_best(
    request: Request, estimator: Any, rows: Any, **special: Any
) -> tuple[Any, Selection | None]:
    """The estimator, fitted; of several numbers of components the best, and how it was chosen."""
    if request.several is None:
        return estimator.fit(rows, **special), None
    count = str(request.model.count)
    models = {str(k): clone(estimator).set_params(**{count: k}) for k in request.several}
    first = models[str(request.several[0])]
    first._watch, first._before = estimator._watch, estimator._before  # select asks the first
    terms = {n: getattr(estimator, n) for n in ("epsilon", "delta", "accountant", "neighbours")}
    choice = select(models, rows, **terms, ledger=estimator.ledger, **special)
    return choice.best_, choice


def _fit_categories(
    request: Request, estimator: Any, data: Path
) -> tuple[tuple[Any, Selection | None], int, float]:
    """Fit columns of categories, read whole; the model, how many rows and their weight."""
    given = {name: request.given.get(name) for name in ("weight", "groups", "categories")}
    given |= {"columns": request.columns, "header": request.header, "without": request.exclude}
    table, weights, groups = read_categories(data, private=not request.exact, **given)
    names = numbered(table.shape[1]) if data.suffix == ".npy" else table.columns
    request.set_columns(estimator, names)
    fitted = _fit_best(request, estimator, table, sample_weight=weights, groups=groups)
    return fitted, len(table), float(len(table) if weights is None else weights.sum())
