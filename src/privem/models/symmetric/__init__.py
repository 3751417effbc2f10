"""Two components that mirror each other, of records or of regressions."""
