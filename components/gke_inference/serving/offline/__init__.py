"""Engines that run as jobs, for work that nobody waits for."""
