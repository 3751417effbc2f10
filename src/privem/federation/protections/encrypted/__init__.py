"""Sums under homomorphic encryption, with one key that all parties hold."""
