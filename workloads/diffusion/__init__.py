"""A server of Flux-family pictures behind OpenAI's images API, one process for each chip.

It goes into an image as it is: it imports nothing of this repository but the package `kernels`,
which lies beside it. `python -m diffusion --help` says what it does.
"""
