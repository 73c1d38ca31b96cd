"""Commands for developing the blueprint."""
