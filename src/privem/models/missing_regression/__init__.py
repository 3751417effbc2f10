"""Linear regression with missing covariates."""
