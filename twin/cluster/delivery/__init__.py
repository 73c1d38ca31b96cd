"""What Config Sync does in a cluster: trees of objects in git, or in registries, are applied."""

from twin.cluster.delivery.controller import ConfigSync

__all__ = ["ConfigSync"]
