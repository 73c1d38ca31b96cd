"""The bodies of vLLM's API: parsing, validation and output."""
