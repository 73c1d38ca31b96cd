"""The real vLLM on this machine's CPU: its installation, a tiny model, its command line."""
