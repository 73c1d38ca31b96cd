"""Identities, references, outputs and refusals of resources."""
