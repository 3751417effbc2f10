"""What every estimator shares: parameters, opening rows, saving."""
