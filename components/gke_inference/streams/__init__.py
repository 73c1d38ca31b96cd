"""Streams: topics with dead letters, and workers that send messages to a model."""
