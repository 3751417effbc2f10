"""The server: it asks parties for sums, and turns what it opens into releases."""
