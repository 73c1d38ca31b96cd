"""Programs of Jobs, which end."""
