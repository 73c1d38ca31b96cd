"""Wires jobs, and the queues that they wait in."""
