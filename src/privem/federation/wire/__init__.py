"""What travels between server and parties: its bytes, and the conditions a party checks."""
