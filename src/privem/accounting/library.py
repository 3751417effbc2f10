"""Typed wrappers of dp_accounting, which has no types and takes a second to import.

The library is imported at the first call. Only what rdp and pld need is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast


class LossDistribution(Protocol):
    """The part of dp_accounting's PrivacyLossDistribution that is used."""

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        """Hockey-stick divergence at one epsilon."""

    def compose(self, other: Any, tail_mass_truncation: float = ...) -> Any:
        """Distribution of the sum of two losses."""

    def self_compose(self, num_times: int, tail_mass_truncation: float = ...) -> Any:
        """Distribution of the sum of `num_times` losses."""


def _pld() -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def gaussian_loss(mu: float, interval: float) -> LossDistribution:
    """Pessimistic loss distribution of Gaussian noise, losses on multiples of `interval`."""
    made = _pld().from_gaussian_mechanism(
        1.0 / mu, value_discretization_interval=interval, log_mass_truncation_bound=-90
    )
    return cast(LossDistribution, made)


def pure_loss(epsilon: float, interval: float) -> LossDistribution:
    """Loss distribution of randomized response: discrete Laplace noise at sensitivity one step."""
    made = _pld().from_discrete_laplace_mechanism(
        epsilon, sensitivity=1, value_discretization_interval=interval, use_connect_dots=True
    )
    return cast(LossDistribution, made)


def rdp_epsilon(orders: Sequence[float], curve: Sequence[float], delta: float) -> float:
    """Epsilon of a Renyi curve at `delta`, the best over `orders`."""
    from dp_accounting.rdp import rdp_privacy_accountant

    return float(rdp_privacy_accountant.compute_epsilon(orders, curve, delta)[0])


def rdp_delta(orders: Sequence[float], curve: Sequence[float], epsilon: float) -> float:
    """Delta of a Renyi curve at `epsilon`, the best over `orders`."""
    from dp_accounting.rdp import rdp_privacy_accountant

    return float(rdp_privacy_accountant.compute_delta(orders, curve, epsilon)[0])
