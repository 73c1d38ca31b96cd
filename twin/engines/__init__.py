"""Inference engines: the programs that run in place of engine containers on the twin."""
