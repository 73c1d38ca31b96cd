"""The JobSet operator."""
