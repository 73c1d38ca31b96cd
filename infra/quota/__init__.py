"""The maximum quota needs of a stack."""
