"""Invariants about routing."""
