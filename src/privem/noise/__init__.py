"""How a sum becomes a release."""

from .exact import Exact

__all__ = ["Exact"]
