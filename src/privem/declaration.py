"""What a model declares about itself, so that nothing else in the library lists models.

Every folder of ``models/`` has a module ``declaration`` with a tuple ``MODELS``. The public names
of ``privem``, the command line, the wire of federations, audits, contract tests and documentation
iterate over :func:`declarations`. Importing a declaration loads none of the model's code, so that
``privem --help`` stays quick.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any


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
    count : str or None
        The parameter that sets its number of components, if it has one.
    target : bool
        Whether ``fit`` takes a target.
    categories : bool
        Whether columns hold categories instead of numbers.
    queries : tuple of str
        Modules, below ``privem``, with the queries that a federation may send to its parties.
    audit_case : callable, optional
        Gives the :class:`AuditCase`, from :data:`privem.audit.neighbours.SAMPLES`; by default one
        cluster, and a record at the other end.
    own_example : callable, optional
        Gives the :class:`Example`; by default two groups of records.
    """

    name: str
    module: str
    command: str
    count: str | None = None
    target: bool = False
    categories: bool = False
    queries: tuple[str, ...] = ()
    audit_case: Callable[[Any], AuditCase] = lambda s: AuditCase(s.cluster, [1.0], [-1.0])
    own_example: Callable[[], Example] | None = None

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
