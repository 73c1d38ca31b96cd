"""Endpoints of the emulators for pods, which check each caller's grants."""
