"""Who may talk to a model server is written down."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, chips, entries, is_kubernetes, pods, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, StackRule

_is_server = is_kubernetes("Deployment", "LeaderWorkerSet", "StatefulSet")
_is_policy = is_kubernetes("NetworkPolicy")


def _closes(policy: Resource) -> bool:
    """Return whether a policy denies by default: it selects every pod and lets nobody in."""
    return (
        not section(policy.props, "spec", "podSelector")
        and "Ingress" in entries(policy.props, "spec", "policyTypes")
        and not entries(policy.props, "spec", "ingress")
    )


def _check(resources: list[Resource], _: Config) -> Iterator[Finding]:
    closed = {
        str(at(each.props, "metadata", "namespace"))
        for each in resources
        if _is_policy(each) and _closes(each)
    }
    for server in resources:
        if not _is_server(server):
            continue
        namespace = str(at(server.props, "metadata", "namespace"))
        uses_chips = any(chips(each) for pod in pods(server) for _, each in pod.containers())
        if uses_chips and namespace not in closed:
            yield broken(
                server,
                "metadata.namespace",
                f"{namespace!r} without one",
                "must have a NetworkPolicy that denies by default",
            )


RULE = StackRule(
    name="namespace-policies",
    description="Namespaces of model servers deny traffic that no network policy allows.",
    check=_check,
    reference="CIS GKE Benchmark 4.3.2 (network policies in all namespaces)",
)
