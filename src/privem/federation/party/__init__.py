"""A party: its rows, its account, its memory, and its answers."""
