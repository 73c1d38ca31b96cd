"""Videos: the family Wan 2.1, from a prompt to a file."""
