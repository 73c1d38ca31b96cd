"""Models, chips and memory."""
