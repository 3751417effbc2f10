"""Ratios against scikit-learn, memory and scaling; run by ``make bench``."""
