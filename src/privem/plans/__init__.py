"""Fits as generators of stages: which sums are asked for, in which order, and when to stop."""
