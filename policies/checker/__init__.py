"""Runs invariants over rendered objects."""
