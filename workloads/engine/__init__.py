"""The launcher, which starts in every engine image, and the spec that the platform writes for it.

This folder is a separate program, `python3 -m engine --spec FILE`. It runs inside engine images, so
it needs only Python 3.10 and its standard library, and imports only itself. The platform imports
the same code, so a single function builds each command line.
"""
