"""Checks rendered objects against the invariants."""
