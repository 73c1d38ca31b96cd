"""Rules about identity."""
