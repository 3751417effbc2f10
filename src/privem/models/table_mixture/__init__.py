"""Mixed columns: a mixture of products fitted to noisy tables of pairs of columns."""
