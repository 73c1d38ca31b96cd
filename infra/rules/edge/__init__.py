"""Rules about what stands between clients and models."""
