"""Rules about lifecycle."""
