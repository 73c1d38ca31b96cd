"""Node pools and their nodes."""
