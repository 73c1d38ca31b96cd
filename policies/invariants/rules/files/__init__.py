"""Invariants about files."""
