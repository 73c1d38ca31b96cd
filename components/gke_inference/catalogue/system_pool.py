"""Defaults of `InferenceCluster`'s system pool, which also count against quotas.

Separate from the component, so that quotas are checked without loading the cloud SDKs.
"""

MACHINE_TYPE = "e2-standard-4"
MOST_NODES = 6
"""Maximum across all zones."""
SURGE_NODES = 1
"""Nodes that an upgrade adds before it removes one."""
