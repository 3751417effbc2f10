"""The command line: ``privem fit``, ``sample``, ``score``, ``demo``."""

from .app import app, main

__all__ = ["app", "main"]
