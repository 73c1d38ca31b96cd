"""Model servers: from what a model needs to the objects that serve it.

Two programs run inside containers, and their text travels in the package: `adapter_loader.py`, and
`launcher`, a link to `workloads/engine`, which images are built with.
"""
