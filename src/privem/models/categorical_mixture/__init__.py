"""Latent classes over categorical columns."""
