"""What `InferenceCluster` makes its system pool of where nobody says: also counted against quotas.

Apart from the component, so that a stack is counted without loading the cloud SDKs.
"""

DISK_TYPE = "pd-balanced"
MACHINE_TYPE = "e2-standard-4"
MOST_NODES = 6
"""All zones together."""
SURGE_NODES = 1
"""Nodes that an upgrade adds before it takes one away."""
