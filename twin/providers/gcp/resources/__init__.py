"""Identities, references, outputs and errors of resources."""
