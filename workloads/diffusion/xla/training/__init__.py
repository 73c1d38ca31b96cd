"""Training of LoRA adapters."""
