"""Accelerator capacity: node pools, custom compute classes, and image caches for nodes."""
