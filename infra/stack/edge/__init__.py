"""Settings of what stands between clients and models."""
