"""Acceptance of a deployed platform: every promise of its stack, with a measurement."""
