"""Objects of a stack that somebody deleted or changed, although Pulumi's state has them.

An update compares a program with the state, and does not look at the clusters. Each kind of object
is listed once per cluster, which takes milliseconds, where a refresh reads every resource.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from scripts.shared.clusters import Cluster, answering
from scripts.shared.preview_states import cluster_names, is_only_read
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import CommandError, console, one_line
from twin.providers.kubernetes.manifests import differ, fields
from twin.providers.kubernetes.manifests.live import shaped
from twin.providers.kubernetes.manifests.objects import identifier, to_object
from twin.wire.kube import Kube, KubeError
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY

_KUBERNETES = "kubernetes:"
_MOST_FIELDS = 3
"""Changed fields that a line names."""


@dataclass(frozen=True)
class Drift:
    """An object that is not as the state has it."""

    urn: str
    kind: str
    identifier: str
    """`NAMESPACE/NAME`, or `NAME` of an object without a namespace."""
    cluster: str
    changed: tuple[str, ...] = ()
    """Paths of fields with other values; empty if the object does not exist."""

    def __str__(self) -> str:
        """Return the drift as a line of text."""
        where = f"{self.kind} {self.identifier} in cluster {self.cluster}"
        if not self.changed:
            return f"{where} is missing"
        more = len(self.changed) - _MOST_FIELDS
        named = ", ".join(self.changed[:_MOST_FIELDS])
        return f"{where} was changed: {named}{f' and {more} more' if more > 0 else ''}"

    def as_json(self) -> dict[str, Any]:
        """Return the drift for JSON output."""
        return {
            "object": f"{self.kind} {self.identifier}",
            "cluster": self.cluster,
            "is_missing": not self.changed,
            "changed": list(self.changed),
        }


def drift_of(resources: list[dict[str, Any]], clusters: Iterable[Cluster]) -> list[Drift]:
    """Return the objects that are missing or changed, in the order of the state.

    Args:
        resources: Resources of a stack's state.
        clusters: Clusters that exist; objects of others are not looked at.

    Raises:
        CommandError: A cluster does not answer.
    """
    by_name = {cluster.name: cluster for cluster in clusters}
    names = cluster_names(resources)
    lists: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    found: list[Drift] = []
    for state in resources:
        if not _is_object(state):
            continue
        name = names.get(str(state["provider"]).rsplit("::", 1)[0], "")
        if name not in by_name:
            continue
        wanted = to_object(_readable(state["inputs"]))
        key = (name, str(wanted["apiVersion"]), str(wanted["kind"]))
        if key not in lists:
            with answering(by_name[name]) as kube:
                lists[key] = _listed(kube, *key[1:])
        found += _compared(state, wanted, name, lists[key])
    return found


def repair(engine: PulumiCli, stack: str, found: list[Drift]) -> None:
    """Make the state show what exists, so that the next update makes it as the program wants.

    Args:
        engine: The Pulumi CLI.
        stack: Name of the stack.
        found: Objects that are not as the state has them.

    Raises:
        CommandError: The engine refuses.
    """
    if not found:
        return
    for each in found:
        console.print(f"Repairing {each}.", markup=False, soft_wrap=True)
    targets = [option for each in found for option in ("--target", each.urn)]
    arguments = ("--yes", "--skip-preview", "--non-interactive", "-s", stack)
    answer = engine.run("refresh", *arguments, *targets, capture=True)
    if answer.returncode:
        raise CommandError(f"{stack}: {one_line(answer.stdout + answer.stderr)}")


def _is_object(state: Mapping[str, Any]) -> bool:
    """Return whether a resource is an object that the stack made and still wants."""
    return (
        str(state["type"]).startswith(_KUBERNETES)
        and not is_only_read(dict(state))
        and not state.get("delete")
    )


def _listed(kube: Kube, version: str, kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind by identifier; none if the server does not know the kind."""
    try:
        items = kube.list(kube.path_of(version, kind))
    except KubeError as error:
        if error.status == 404:
            return {}
        raise
    return {identifier(item): {"apiVersion": version, "kind": kind, **item} for item in items}


def _compared(
    state: Mapping[str, Any], wanted: dict[str, Any], cluster: str, listed: dict[str, Any]
) -> Iterator[Drift]:
    title = (str(state["urn"]), str(wanted["kind"]), str(state["id"]), cluster)
    live = listed.get(str(state["id"]))
    if live is None:
        yield Drift(*title)
        return
    ignored = [fields.parse(path) for path in state.get("ignoreChanges") or ()]
    difference = differ.compare(shaped(live, wanted), wanted, replacing=[], ignored=ignored)
    if difference.changes:
        yield Drift(*title, tuple(fields.render(each.path) for each in difference.changes))


def _readable(value: Any) -> Any:
    """Return a value without what the state has encrypted."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        return {key: _readable(item) for key, item in mapping.items() if not _is_secret(item)}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_readable(item) for item in items]
    return value


def _is_secret(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return cast("dict[str, Any]", value).get(SIGNATURE_KEY) == SECRET_SIGNATURE
