"""Models, chips and memory: what fits where."""
