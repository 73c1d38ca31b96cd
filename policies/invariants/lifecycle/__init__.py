"""Invariants about lifecycle."""
