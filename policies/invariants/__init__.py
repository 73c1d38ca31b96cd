"""Requirements across the rendered objects of a platform, one per file."""
