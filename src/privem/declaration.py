"""What a model declares about itself, so that nothing else in the library lists models.

Every folder of ``models/`` has a module ``declaration`` with a tuple ``MODELS``. The public names
of ``privem``, the command line, the wire of federations, audits, contract tests and documentation
iterate over :func:`declarations`. Importing a declaration loads none of the model's code, so that
``privem --help`` stays quick.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def counted(number: int, what: str) -> str:
    """So many of something, in words.

    Examples
    --------
    >>> counted(1, "cluster"), counted(1200, "cluster")
    ('1 cluster', '1,200 clusters')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Example:
    """Small data, and the arguments of an estimator that fits them.

    Parameters
    ----------
    data : tuple of arrays
        X, or X and y.
    arguments : mapping
        Of every fit.
    bounds : mapping
        Of private fits, besides.
    """

    data: tuple[Any, ...]
    arguments: Mapping[str, Any]
    bounds: Mapping[str, Any]


@dataclass(frozen=True)
class Public:
    """What a plan knows of data that nobody has looked at.

    Parameters
    ----------
    records : int
        How many records to make up.
    features, components : int
    separation : float
        How far apart components are, in standard deviations within one.
    categories : int
        Of a column of categories that are not given.
    arguments : mapping
        Those of the estimator.
    """

    records: int
    features: int
    components: int
    separation: float
    categories: int
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class MadeUp:
    """Made-up records for a rehearsal (:mod:`privem.planning`), drawn from public numbers alone.

    Parameters
    ----------
    data : tuple of arrays or frames
        X, or X and y.
    alone : float
        The score of a record that one has without any data, from the bounds alone.
    arguments : mapping
        Of every fit.
    instead : mapping
        Of private fits, where the estimator has one of its own for its own data: bounds, ...
    sizes : mapping
        What noise on an attribute is measured in, if not the size of its numbers.
    exact : float, optional
        The score of a record under the law that it was drawn from, where that is compared with in
        place of an exact fit.
    """

    data: tuple[Any, ...]
    alone: float
    arguments: Mapping[str, Any] = field(default_factory=dict)
    instead: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    exact: float | None = None


@dataclass(frozen=True)
class AuditCase:
    """Where fits of a model are weakest: two neighbouring data sets in [-1, 1]^d.

    A fit is a chain of releases, and a record that moves one of them fully may leave the next
    alone: it must lie far from where each query looks, at the edge of what it keeps, and on the far
    side of what the fit has found by then. How much of the claim a case uses is measured with every
    audit (:attr:`privem.audit.FitAudit.share`).

    Parameters
    ----------
    shared : array of shape (n, d)
        The records of both data sets. A target is the last column.
    target, other : sequence of float
        The record that one data set has besides, and what replaces it in the other.
    arguments : mapping
        Of the estimator, where the usual ones of :func:`privem.audit.battery.tiny` will not do.
    """

    shared: Any
    target: Sequence[float]
    other: Sequence[float]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    """One parameter of an estimator's constructor, as its docstring tells."""

    kind: str
    """The first type that it may have: ``int``, ``float``, ``bool``, ``str``, ..."""
    default: Any
    choices: tuple[str, ...]
    """The words it can be, where they are listed: ``{"full", "tied"}``."""
    meaning: str
    """The first sentence about it."""

    @classmethod
    def of(cls, types: str, meaning: str) -> Parameter:
        """From what a docstring says.

        Examples
        --------
        >>> Parameter.of('{"full", "tied"}, default="full"', "Shape.").choices
        ('full', 'tied')
        """
        choices = re.match(r"\{(.*?)\}", types)
        default = re.search(r"default=(.+)", types)
        return cls(
            "str" if choices else re.split(r"\W", types)[0],
            ast.literal_eval(default[1]) if default else None,
            tuple(re.findall(r'"([^"]+)"', choices[1])) if choices else (),
            meaning,
        )


@dataclass(frozen=True)
class ParameterTable:
    """What a fitted model looks like to a person: a title, a caption and a table of numbers."""

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[float]]
    labels: Sequence[str] | None = None
    """Of the rows; by default their numbers."""


def _mean_log_likelihood(model: Any, weight: float | None) -> dict[str, Any]:
    """What most models find besides their parameters; a fit by moments climbs no likelihood."""
    if weight is None or not hasattr(model, "lower_bound_"):
        return {}
    return {"mean_log_likelihood": float(model.lower_bound_)}


@dataclass(frozen=True)
class Declaration:
    """What the rest of the library needs to know about a model.

    Parameters
    ----------
    name : str
        The estimator's class, public as ``privem.<name>``.
    module : str
        Where the class is, below ``privem``.
    command : str
        Its name at the command line: ``privem fit --model <command>``.
    description : str
        A few words for ``privem fit --help``.
    count : str or None
        The parameter that sets its number of components, if it has one.
    target : bool
        Whether ``fit`` takes a target.
    categories : bool
        Whether columns hold categories instead of numbers.
    schema : bool
        Whether columns are of mixed kinds, declared by a schema.
    density : bool
        Whether it is a distribution: records can be drawn from it, and ``score`` is a mean
        log-density. Otherwise ``score`` is minus a sum of squared distances.
    queries : tuple of str
        Modules, below ``privem``, with the queries that a federation may send to its parties.
    audit_case : callable, optional
        Gives the :class:`AuditCase`, from :data:`privem.audit.neighbours.SAMPLES`; by default one
        cluster, and a record at the other end.
    own_example : callable, optional
        Gives the :class:`Example`; by default two groups of records.
    own_family : callable, optional
        Makes up records (:class:`MadeUp`) from what is :class:`Public` and a random generator, for
        plans; by default groups, classes or lines (:mod:`privem.families`).
    rehearsed : int, optional
        How many made-up records a rehearsal has, where it is not the usual number.
    rehearsals : int
        How many rehearsals a plan has, unless another number is asked for.
    options : tuple of str
        Parameters that no other model has and that the command line should offer, as ``--name``
        with the first sentence of the docstring. Parameters that models share are known there.
    results : tuple of str
        The fitted attributes that a summary lists; by default those a saved model needs.
    figures : callable
        What else a summary says, as a dict: called with the fitted model and the total weight of
        its rows, or ``None`` where only what was released may be said.
    table : callable or None
        Makes a :class:`ParameterTable` of the fitted model, from a mapping of its attributes: their
        values, or their standard errors.
    """

    name: str
    module: str
    command: str
    description: str
    count: str | None = None
    target: bool = False
    categories: bool = False
    schema: bool = False
    density: bool = True
    queries: tuple[str, ...] = ()
    audit_case: Callable[[Any], AuditCase] = lambda s: AuditCase(s.cluster, [1.0], [-1.0])
    own_example: Callable[[], Example] | None = None
    own_family: Callable[[Public, Any], MadeUp] | None = None
    rehearsed: int | None = None
    rehearsals: int = 7
    options: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    figures: Callable[[Any, float | None], dict[str, Any]] = _mean_log_likelihood
    table: Callable[[Any, Mapping[str, Any]], ParameterTable] | None = None

    @property
    def estimator(self) -> type[Any]:
        """The class itself, loaded when it is needed."""
        found: type[Any] = getattr(import_module(f"privem.{self.module}"), self.name)
        return found

    def example(self) -> Example:
        """Data that the model fits well, and with which arguments."""
        if self.own_example is not None:
            return self.own_example()
        import numpy as np

        rng, n, slopes = np.random.default_rng(11), 600, np.array([1.0, -2.0, 0.5])
        sign, X = np.where(rng.random(n) < 0.4, 1.0, -1.0), rng.normal(size=(n, 3))
        arguments: dict[str, Any] = {} if self.count is None else {self.count: 2}
        if self.categories:
            likes = np.where(sign[:, None] > 0, [0.9, 0.8, 0.9], [0.1, 0.2, 0.3])
            words = np.where(rng.random((n, 3)) < likes, "yes", "no")
            return Example((words,), arguments | {"categories": ["no", "yes"]}, {})
        if self.target:
            y = sign * (X @ slopes) + 0.3 * rng.normal(size=n)
            return Example((X, y), arguments, {"bounds": 6.0, "target_bounds": 12.0})
        return Example((2 * sign[:, None] * slopes + X,), arguments, {"bounds": 9.0})

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """What the constructor takes: read from its docstring, without loading the class."""
        module = f"privem.{self.module}"
        spec = find_spec(module)
        source = getattr(spec and spec.loader, "get_source", lambda name: None)(module)
        classes = [node for node in ast.parse(source or "").body if isinstance(node, ast.ClassDef)]
        found = {}
        for name, types, meaning in _documented(next(c for c in classes if c.name == self.name)):
            elsewhere = re.match(r"see :class:`privem\.(\w+)`", types)
            if elsewhere:
                found[name] = declared(elsewhere[1]).parameters[name]
            else:
                found[name] = Parameter.of(types, meaning)
        return found


def _documented(cls: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Name, types and first sentence of each parameter in a NumPy docstring."""
    _, _, section = (ast.get_docstring(cls) or "").partition("Parameters\n----------\n")
    section = re.split(r"\n\n\S.*\n---", section)[0]
    entries = re.findall(r"^(\S.*?) : (.*)\n?((?: .*\n?)*)", section, re.MULTILINE)
    for names, types, text in entries:
        sentence = re.split(r"(?<=[.;]) ", inspect.cleandoc(text).replace("\n", " "))[0]
        for name in names.split(", "):
            yield name, types, sentence.replace("``", "").rstrip(".;") + "."


@cache
def declarations() -> tuple[Declaration, ...]:
    """All models, in the order of their folders."""
    models = import_module("privem.models")
    folders = sorted(found.name for found in pkgutil.iter_modules(models.__path__) if found.ispkg)
    modules = [import_module(f"{models.__name__}.{folder}.declaration") for folder in folders]
    return tuple(each for module in modules for each in module.MODELS)


def declared(name: str) -> Declaration:
    """The declaration of the model of this name."""
    return next(each for each in declarations() if each.name == name)


def declaration_of(model: Any) -> Declaration:
    """What the kind of an estimator declares; of a class that nobody declared, its name alone.

    Examples
    --------
    >>> from privem import KMeans
    >>> class Mine(KMeans): ...
    >>> declaration_of(Mine()).name, declaration_of("a text").name
    ('KMeans', 'str')
    """
    known = {each.name: each for each in declarations()}
    kinds = [known[kind.__name__] for kind in type(model).__mro__ if kind.__name__ in known]
    name = type(model).__name__
    return kinds[0] if kinds else Declaration(name, type(model).__module__, name, name)
