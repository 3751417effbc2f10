"""Mixtures of linear regressions."""
