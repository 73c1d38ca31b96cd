"""Benchmarks, the routing laboratory and their program `bench`."""
