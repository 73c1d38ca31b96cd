"""Invariants about scaling."""
