"""Pages that are generated from code and data."""
