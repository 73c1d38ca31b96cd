"""What llm-d's routing side-car does in front of a decoding engine, as a small program."""
