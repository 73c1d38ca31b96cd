"""Simulated inference engines: the programs that engine containers become on the twin."""
