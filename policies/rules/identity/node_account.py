"""Nodes never run as the project's default service account, which can edit the whole project."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, NODE_POOL, at, entries
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_DEFAULT_SUFFIX = "-compute@developer.gserviceaccount.com"
_CLASS = "kubernetes:cloud.google.com/v1:ComputeClass"


def _where(resource: Resource) -> list[str]:
    """Return the paths of the node service account."""
    if resource.type == NODE_POOL:
        return ["nodeConfig.serviceAccount"]
    if resource.type == _CLASS:
        rungs = entries(resource.props, "spec", "priorities")
        if rungs and all(at(rung, "nodepools") for rung in rungs):
            return []  # its nodes are in node pools, which are checked themselves
        return ["spec.nodePoolConfig.serviceAccount"]
    provisioned = "clusterAutoscaling.autoProvisioningDefaults.serviceAccount"
    paths: list[str] = []
    if at(resource.props, "enableAutopilot") or at(resource.props, "clusterAutoscaling", "enabled"):
        paths.append(provisioned)
    elif at(resource.props, "removeDefaultNodePool") is not True:
        paths.append("nodeConfig.serviceAccount")
    return paths


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for path in _where(resource):
        account = at(resource.props, *path.split("."))
        if account in (None, "", "default"):
            yield broken(resource, path, quoted(account), "must name a dedicated service account")
        elif str(account).endswith(_DEFAULT_SUFFIX):
            yield broken(resource, path, quoted(account), "must not be the default compute account")


def _applies(resource: Resource) -> bool:
    return resource.type in (CLUSTER, NODE_POOL, _CLASS)


RULE = ResourceRule(
    name="node-account",
    description="Nodes run as a dedicated service account, never as the project's default one.",
    applies=_applies,
    check=_check,
    cis=("5.2.1",),
)
