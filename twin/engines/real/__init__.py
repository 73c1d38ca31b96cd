"""The real vLLM on this machine's processors: its installation, a tiny model, its command line."""
