"""Private means."""
