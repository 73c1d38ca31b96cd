"""Server for Flux-family image models with OpenAI's images API, with one process for each chip.

The folder is copied into a container image unchanged. From this repository, it imports only the
package `kernels` beside it. For its commands, run `python -m diffusion --help`.
"""
