"""The worker of a stream: reads messages, sends each to a model, and stores the answers."""
