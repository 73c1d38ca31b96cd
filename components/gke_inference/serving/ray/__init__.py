"""Sets of Ray clusters: their kind, and the program that scales them."""
