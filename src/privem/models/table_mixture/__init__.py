"""Mixtures of products over tables of mixed columns, fitted to noisy tables of pairs."""
