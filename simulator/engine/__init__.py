"""The engine model: scheduler, KV cache and step times of a vLLM server."""
