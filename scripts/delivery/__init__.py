"""Delivery of models from Git: the tree, the artifact, and the status in the clusters."""
