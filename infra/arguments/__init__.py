"""Translates a stack into the arguments of components; nothing else does."""
