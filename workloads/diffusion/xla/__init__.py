"""What needs JAX, PyTorch and diffusers: nothing outside this folder imports them."""
