"""Latent-variable models: a query for the E-step, a total M-step."""
