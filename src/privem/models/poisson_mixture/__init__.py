"""Mixtures of Poisson distributions, for counts."""
