"""What to expect of a private fit, before anything is spent: :func:`privem.plan`."""
