"""Invariants about hardware."""
