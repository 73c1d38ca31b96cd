"""Accelerators, topologies and replicas for a load, and their cost."""
