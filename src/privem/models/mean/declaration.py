"""A private mean is a function, not a model: nothing to declare."""

from ...declaration import Declaration

MODELS: tuple[Declaration, ...] = ()
