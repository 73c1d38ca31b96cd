"""llm-d's routing sidecar for a decoding engine, as a small program."""
