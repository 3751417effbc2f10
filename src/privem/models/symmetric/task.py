"""What a private fit of a symmetric model is to do: public choices and the sizes they imply."""

from __future__ import annotations

from dataclasses import dataclass

from ...tree import Array

__all__ = ["SymmetricTask"]

_ITERATIONS, _STEPS = 6, 5


@dataclass(frozen=True)
class SymmetricTask:
    """What to fit, and how. All public.

    Parameters
    ----------
    d : int
        Features.
    regression : bool
        Whether the last column is a target.
    method : {"moments", "gradient"}
    mechanism : {"clip", "robust"}
        Of gradients.
    n_iter : int or None
    most : int
        Iterations, at most.
    variance : float or None
        Known noise variance.
    init : array of shape (d,) or None
        Start; ``None``: a paid spectral one.
    clip, tau : float or None
        Of gradients: the norm to clip at; the bound on their coordinates' second moment.
    step : float
    averaging, partition : bool
    terms : (epsilon, delta, failure probability)
        For the papers' parameters.
    """

    d: int
    regression: bool
    method: str = "moments"
    mechanism: str = "clip"
    n_iter: int | None = None
    most: int = 500
    variance: float | None = None
    init: Array | None = None
    clip: float | None = None
    tau: float | None = None
    step: float = 1.0
    averaging: bool = True
    partition: bool = False
    terms: tuple[float, float, float] = (1.0, 1e-6, 0.05)

    @property
    def iterations(self) -> int:
        """How many."""
        usual = _ITERATIONS if self.method == "moments" else _STEPS
        return min(self.n_iter or usual, self.most)

    @property
    def shape(self) -> bool:
        """Whether the covariates' second moment is released, to go on in whitened coordinates."""
        return self.regression and self.method == "moments"

    @property
    def squares(self) -> bool:
        """Whether mean squares are released."""
        robust = self.method == "gradient" and self.mechanism == "robust" and self.tau is None
        return self.variance is None or self.init is None or self.shape or robust

    def sizes(self) -> dict[str, int]:
        """How many numbers each kind of stage releases."""
        pairs = self.d * (self.d + 1) // 2
        known = self.variance is not None or self.method == "gradient"
        found = {"em": self.d + (not known)}
        if self.squares:
            found["squares"] = 1 + self.regression
        if self.shape:
            found["shape"] = pairs
        if self.init is None:
            found["direction"] = pairs
        return found
