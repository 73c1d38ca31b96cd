"""Streams: topics with dead letters, and the workers that ask a model about each message."""
