"""A namespace that models are served in, and what may reach it."""
