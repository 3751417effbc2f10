"""Choosing among private models within one budget: :func:`privem.select`."""
