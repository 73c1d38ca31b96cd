"""Repairs a stack's state after an interrupted engine.

The engine records an operation before it starts it. If it is killed, it cannot know whether the
cloud finished the operation. A refresh reads every resource and drops unfinished creations. If such
a resource exists nevertheless, the next `up` fails with a duplicate. Therefore each unfinished
creation that exists is first imported into the state, by its identifier in the cloud.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.backend.identifiers import CONNECTION, connection_of, identifier_of
from scripts.shared.google_cloud import Cloud, NotFound
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import CommandError, console, one_line

Find = Callable[[str, Mapping[str, Any]], str]
"""Returns the identifier in the cloud of a resource by type and inputs; empty if there is none."""


@dataclass(frozen=True)
class Pending:
    """An operation that an engine did not complete."""

    action: str
    """`creating`, `updating` or `deleting`."""
    kind: str
    urn: str
    identifier: str = ""
    """Identifier in the cloud of a finished creation; empty otherwise."""

    def __str__(self) -> str:
        """Return the operation as a line of text."""
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
    """Return the identifier of a resource in a project, or nothing.

    A resource of an unknown type, or with a name that the provider chooses, counts as missing; the
    next `up` then reports a duplicate.

    Raises:
        CloudError: Google refuses to show it.
    """
    if kind == CONNECTION:
        return _connection(cloud, inputs)
    found = identifier_of(kind, inputs, cloud.project)
    if found is None:
        return ""
    host, identifier = found
    try:
        cloud.get(f"{host}/{identifier}")
    except NotFound:
        return ""
    return identifier


def _connection(cloud: Cloud, inputs: Mapping[str, Any]) -> str:
    url, peering, identifier = connection_of(inputs)
    try:
        network = cloud.get(url)
    except NotFound:
        return ""
    names = [each.get("name") for each in network.get("peerings", [])]
    return identifier if peering in names else ""


def nothing(kind: str, inputs: Mapping[str, Any]) -> str:
    """Return no identifier: the twin returns the existing resource on a repeated creation."""
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
    """Import finished creations into the state, drop the others, and refresh every resource.

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
