"""Wires job queues."""
