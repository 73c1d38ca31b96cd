"""The launcher: what every engine image starts, and what the platform writes for it.

This folder is a program of its own, `python3 -m engine --spec FILE`. It runs inside engine images,
so it needs Python 3.10 and its standard library, nothing else, and imports only itself. The
platform imports the same code: a command line is made by one function, wherever it is needed.
"""
