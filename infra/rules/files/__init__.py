"""Rules about shared file systems."""
