"""Cost per million tokens and per image."""
