"""Benchmarks; each measures a subject and writes a file."""
