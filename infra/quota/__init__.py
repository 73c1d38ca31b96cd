"""What a stack can ask of Google's quotas at most."""
