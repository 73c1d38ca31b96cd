"""Rules about serving."""
