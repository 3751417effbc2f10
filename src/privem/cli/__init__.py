"""The command line: ``privem fit``, ``sample``, ``score``, ``audit``, ``demo``, ``federate``."""

from .app import app, main

__all__ = ["app", "main"]
