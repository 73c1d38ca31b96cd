"""KV cache beyond the accelerator: vLLM's tiers in the pod of a model server."""
