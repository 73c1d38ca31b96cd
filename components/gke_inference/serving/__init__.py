"""Model servers: from the needs of a model to the objects that serve it.

The package contains the source of two programs that run inside containers: `adapter_loader.py`, and
`launcher`, a link to `workloads/engine`, from which images are built.
"""
