"""Accelerator capacity: node pools, custom compute classes, image caches of nodes."""
