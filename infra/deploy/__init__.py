"""Builds a stack: settings as the arguments of components, and what depends on what."""
