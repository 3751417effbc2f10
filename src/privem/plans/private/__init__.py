"""Private fits: every stage is bounded, noisy and paid for."""
