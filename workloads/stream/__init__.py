"""The worker of a stream: reads messages, asks a model about each, and keeps the answers."""
