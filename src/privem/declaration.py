"""What a model declares about itself, so that nothing else in the library lists models.

Every folder of ``models/`` has a module ``declaration`` with a tuple ``MODELS``. The public names
of ``privem``, the command line, the wire of federations, audits, contract tests and documentation
iterate over :func:`declarations`. Importing a declaration loads none of the model's code, so that
``privem --help`` stays quick.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["Declaration", "declarations"]


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
    """

    name: str
    module: str
    command: str
    count: str | None = None
    target: bool = False
    categories: bool = False
    queries: tuple[str, ...] = ()

    @property
    def estimator(self) -> type[Any]:
        """The class itself, loaded when it is needed."""
        found: type[Any] = getattr(import_module(f"privem.{self.module}"), self.name)
        return found


@cache
def declarations() -> tuple[Declaration, ...]:
    """All models, in the order of their folders."""
    models = import_module("privem.models")
    folders = sorted(found.name for found in pkgutil.iter_modules(models.__path__) if found.ispkg)
    modules = [import_module(f"{models.__name__}.{folder}.declaration") for folder in folders]
    return tuple(each for module in modules for each in module.MODELS)
