"""Rules about data."""
