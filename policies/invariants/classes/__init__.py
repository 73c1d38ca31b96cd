"""Invariants about classes."""
