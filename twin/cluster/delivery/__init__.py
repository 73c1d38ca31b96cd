"""Config Sync in a cluster: apply trees of objects from git or a registry."""

from twin.cluster.delivery.controller import ConfigSync

__all__ = ["ConfigSync"]
