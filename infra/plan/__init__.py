"""The stack resolved: capacity, canaries, names and images of what it serves."""
