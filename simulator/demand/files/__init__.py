"""Readers of traffic files: one module for each form."""
