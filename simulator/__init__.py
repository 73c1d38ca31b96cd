"""The simulated vLLM server, traffic against it, and the routing laboratory."""
