"""Network policies define which traffic reaches a model server."""

from collections.abc import Iterator

from gke_inference.catalogue.labels import TEAM_LABEL
from policies.framework.finding import Finding, broken
from policies.framework.reading import (
    at,
    chips,
    entries,
    is_kubernetes,
    pods,
    section,
)
from policies.framework.resources import Resource
from policies.framework.rule import Config, StackRule

_is_server = is_kubernetes("Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet")
_is_namespace = is_kubernetes("Namespace")
_is_policy = is_kubernetes("NetworkPolicy")


def _closes(policy: Resource) -> bool:
    """Return whether a policy denies by default: it selects all pods and allows no ingress."""
    return (
        not section(policy.props, "spec", "podSelector")
        and "Ingress" in entries(policy.props, "spec", "policyTypes")
        and not entries(policy.props, "spec", "ingress")
    )


def _isolates(policy: Resource, server: Resource) -> bool:
    """Return whether a policy selects a server's pods, which denies traffic that it does not list.

    That is sufficient in a namespace shared with pods of others
    (kubernetes.io/docs/concepts/services-networking/network-policies).
    """
    wanted = section(policy.props, "spec", "podSelector", "matchLabels")
    lets_all_in = any(not rule for rule in entries(policy.props, "spec", "ingress"))
    return (
        bool(wanted)
        and not lets_all_in
        and "Ingress" in entries(policy.props, "spec", "policyTypes")
        and at(policy.props, "metadata", "namespace") == at(server.props, "metadata", "namespace")
        and all(
            all(pod.labels.get(key) == value for key, value in wanted.items())
            for pod in pods(server)
        )
    )


def _check(resources: list[Resource], _: Config) -> Iterator[Finding]:
    made = {str(at(each.props, "metadata", "name")) for each in resources if _is_namespace(each)}
    policies = [each for each in resources if _is_policy(each)]
    closed = {str(at(each.props, "metadata", "namespace")) for each in policies if _closes(each)}
    for server in resources:
        if not _is_server(server):
            continue
        namespace = str(at(server.props, "metadata", "namespace"))
        uses_chips = any(chips(each) for pod in pods(server) for _, each in pod.containers())
        if not uses_chips or namespace in closed:
            continue
        if namespace not in made and at(server.props, "metadata", "labels", TEAM_LABEL):
            continue  # the platform's stack creates the namespace and its default-deny policy
        if not any(_isolates(each, server) for each in policies):
            yield broken(
                server,
                "metadata.namespace",
                f"{namespace!r} without one",
                "must have a NetworkPolicy that denies by default, or one that selects these pods",
            )


RULE = StackRule(
    name="namespace-policies",
    description="Namespaces of model servers deny traffic by default.",
    check=_check,
    cis=("4.3.2",),
)
