"""The inner loops: blocks of rows in, sums out. NumPy only; no privacy, no models."""
