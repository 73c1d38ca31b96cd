"""Commands for work on the blueprint itself."""
