"""Clears what an interrupted engine left in a stack's state.

The engine records an operation before it starts it. If it is killed, it cannot know whether the
cloud finished the operation. A refresh reads every resource and drops unfinished creations. What
was created all the same would then be refused as a duplicate by the next `up`: so each unfinished
creation that exists is taken into the state first, by its identifier in the cloud.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scripts.shared.google_cloud import Cloud, NotFound
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import CommandError, console, one_line

_COMPUTE: Final = "compute.googleapis.com/compute/v1"
_CONTAINER: Final = "container.googleapis.com/v1"

_IDENTIFIERS: Final = {
    "gcp:compute/address:Address": (
        _COMPUTE,
        "projects/{project}/regions/{region}/addresses/{name}",
    ),
    "gcp:compute/disk:Disk": (_COMPUTE, "projects/{project}/zones/{zone}/disks/{name}"),
    "gcp:compute/firewall:Firewall": (_COMPUTE, "projects/{project}/global/firewalls/{name}"),
    "gcp:compute/network:Network": (_COMPUTE, "projects/{project}/global/networks/{name}"),
    "gcp:compute/router:Router": (_COMPUTE, "projects/{project}/regions/{region}/routers/{name}"),
    "gcp:compute/subnetwork:Subnetwork": (
        _COMPUTE,
        "projects/{project}/regions/{region}/subnetworks/{name}",
    ),
    "gcp:container/cluster:Cluster": (
        _CONTAINER,
        "projects/{project}/locations/{location}/clusters/{name}",
    ),
    "gcp:container/nodePool:NodePool": (_CONTAINER, "{cluster}/nodePools/{name}"),
    "gcp:serviceaccount/account:Account": (
        "iam.googleapis.com/v1",
        "projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
    ),
    "gcp:storage/bucket:Bucket": ("storage.googleapis.com/storage/v1/b", "{name}"),
}
"""Host and version of the API that shows a resource, and its identifier there and in the provider
(each resource's page under registry.terraform.io/providers/hashicorp/google, section Import)."""


Find = Callable[[str, Mapping[str, Any]], str]
"""Returns the identifier in the cloud of a resource by type and inputs; empty if there is none."""


@dataclass(frozen=True)
class Pending:
    """An operation that an engine did not see the end of."""

    action: str
    """`creating`, `updating` or `deleting`."""
    kind: str
    urn: str
    identifier: str = ""
    """Identifier in the cloud of a creation that was finished; empty otherwise."""

    def __str__(self) -> str:
        """Return the line that users read."""
        found = f": exists as {self.identifier}" if self.identifier else ""
        return f"{self.action} {self.kind} {self.urn.rpartition('::')[2]}{found}"


def pending_operations(deployment: dict[str, Any], find: Find) -> list[Pending]:
    """Return the unfinished operations of a stack's state.

    Args:
        deployment: The state, as `pulumi stack export` prints it.
        find: Function that returns the identifier of a resource by type and inputs, or nothing.
    """
    found: list[Pending] = []
    operations: list[dict[str, Any]] = deployment.get("pending_operations") or []
    for operation in operations:
        resource: dict[str, Any] = operation["resource"]
        action, kind = str(operation["type"]), str(resource["type"])
        identifier = find(kind, resource.get("inputs") or {}) if action == "creating" else ""
        found.append(Pending(action, kind, str(resource["urn"]), identifier))
    return found


def find_in(cloud: Cloud, kind: str, inputs: Mapping[str, Any]) -> str:
    """Return the identifier of a resource that a project has, or nothing.

    A type that is not known here counts as not there: the next `up` then reports a duplicate.

    Raises:
        CloudError: Google refuses to show it.
    """
    host, form = _IDENTIFIERS.get(kind, ("", ""))
    try:
        identifier = form.format_map({"project": cloud.project, **inputs})
    except KeyError:
        return ""  # the provider would have chosen the name
    if not identifier:
        return ""
    try:
        cloud.get(f"{host}/{identifier}")
    except NotFound:
        return ""
    return identifier


def nothing(kind: str, inputs: Mapping[str, Any]) -> str:
    """Return no identifier: the twin answers a repeated creation with the existing resource."""
    del kind, inputs
    return ""


def recover(engine: PulumiCli, stack: str, find: Find = nothing) -> None:
    """Reconcile a stack's state with the cloud after an interrupted run; otherwise do nothing.

    Args:
        engine: The Pulumi CLI.
        stack: Name of the stack.
        find: Function that returns the identifier of a resource by type and inputs, or nothing.

    Raises:
        CommandError: The engine refuses.
    """
    pending = pending_operations(engine.deployment(stack), find)
    if pending:
        reconcile(engine, stack, pending)


def reconcile(engine: PulumiCli, stack: str, pending: list[Pending]) -> None:
    """Take finished creations into the state, drop the others, and refresh every resource.

    Raises:
        CommandError: The engine refuses.
    """
    console.print(f"The last run was interrupted: checking {len(pending)} unfinished operations.")
    arguments = ["--yes", "--skip-preview", "--non-interactive", "--clear-pending-creates"]
    for each in pending:
        if each.identifier:
            arguments += ["--import-pending-creates", each.urn]
            arguments += ["--import-pending-creates", each.identifier]
    answer = engine.run("refresh", *arguments, "-s", stack, capture=True)
    if answer.returncode:
        raise CommandError(f"{stack}: {one_line(answer.stdout + answer.stderr)}")
