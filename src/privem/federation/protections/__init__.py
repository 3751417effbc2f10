"""How sums are protected on their way from the parties to the server."""
