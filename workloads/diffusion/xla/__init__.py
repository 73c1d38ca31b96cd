"""Modules that need JAX, PyTorch and diffusers; nothing outside this folder imports them."""
