"""Delivery of models from git: the tree, the artifact, and what the clusters have of it."""
