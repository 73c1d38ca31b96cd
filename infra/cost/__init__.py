"""Costs of a stack by hour, month and unit of work."""
