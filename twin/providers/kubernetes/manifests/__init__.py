"""Reading, comparison and application of objects."""
