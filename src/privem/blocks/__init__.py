"""What models are made of: regions, sensitivities, bounds, starts."""
