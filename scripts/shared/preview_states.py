"""The states of resources in a preview of the engine."""

import json
import tempfile
from pathlib import Path
from typing import Any, cast

from infra.reading.load import STACKS
from infra.reading.variants import with_delivered
from infra.stack.problems import StackError
from policies.framework.reading import CLUSTER
from scripts.shared.engine import Engine
from scripts.shared.platform_state import seed_platform, write_state
from scripts.terminal.console import CommandError, one_line
from scripts.terminal.options import check_stack
from twin.providers.kubernetes.manifests.objects import to_object
from twin.wire.property_values import UNKNOWN

NOT_KNOWN = "(known after up)"
_PROVIDER = "pulumi:providers:kubernetes"
_CREATES = ("create", "read")


def preview_states(
    engine: Engine, stack: str, *options: str, text: str | None = None
) -> list[dict[str, Any]]:
    """Return the states that a first `up` of a stack would create, regardless of deployments.

    They include objects that are delivered from Git.

    Args:
        engine: Pulumi CLI of the twin.
        stack: Stack to preview.
        options: Further options of `pulumi preview`.
        text: Stack file to preview instead of the stack's own.

    Raises:
        CommandError: The preview failed; the message has its errors.
    """
    check_stack(stack)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PULUMI_BACKEND_URL": f"file://{folder}"}
        write_state(Path(folder), stack)
        try:
            seed_platform(Path(folder), stack)
        except StackError as error:
            raise CommandError(str(error)) from None
        file = STACKS / f"Pulumi.{stack}.yaml"
        own = file.read_text(encoding="utf-8")
        if (whole := with_delivered(own if text is None else text)) != own:
            copy = Path(folder) / file.name
            copy.write_text(whole, encoding="utf-8")
            options = (*options, "--config-file", str(copy))
        command = ("preview", "-s", stack, "--json", *options)
        answer = engine.run(*command, capture=True, environment=environment)
    if answer.returncode:
        why = preview_errors(answer.stdout) or answer.stderr or answer.stdout[-2000:]
        raise CommandError(f"the preview of {stack} failed: {one_line(why)}")
    steps: list[dict[str, Any]] = json.loads(answer.stdout)["steps"]
    return [step["newState"] for step in steps if step["op"] in _CREATES]


def preview_errors(output: str) -> str:
    """Return the errors in the JSON output of a preview; may be empty."""
    try:
        found: list[dict[str, Any]] = json.loads(output).get("diagnostics", [])
    except ValueError:
        return ""
    messages: list[str] = [
        item["message"].strip() for item in found if item.get("severity") == "error"
    ]
    return "; ".join(dict.fromkeys(messages))


def without_unknowns(value: Any) -> Any:
    """Return a value with readable markers for unknown values, at any depth."""
    if isinstance(value, dict):
        return {key: without_unknowns(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [without_unknowns(item) for item in cast("list[Any]", value)]
    return value.replace(UNKNOWN, NOT_KNOWN) if isinstance(value, str) else value


def is_only_read(state: dict[str, Any]) -> bool:
    """Return whether a program only reads an object that another resource creates."""
    return bool(state.get("external")) or "kind" not in (state.get("inputs") or {})


def manifests(states: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the Kubernetes objects by the name of their cluster."""
    names = cluster_names(states)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for state in states:
        if not state["type"].startswith("kubernetes:") or is_only_read(state):
            continue
        provider = str(state.get("provider", "")).rsplit("::", 1)[0]
        if provider not in names:
            raise CommandError(f"{state['urn']}: must have the provider of a cluster")
        found[names[provider]].append(to_object(without_unknowns(state["inputs"])))
    return found


def cluster_names(states: list[dict[str, Any]]) -> dict[str, str]:
    """Return the names of clusters by the URN of their kubernetes provider."""
    by_urn = {state["urn"]: state for state in states}
    names: dict[str, str] = {}
    for state in states:
        if state["type"] != _PROVIDER:
            continue
        by_property: dict[str, list[str]] = state.get("propertyDependencies", {})
        dependencies = by_property.get("kubeconfig", [])
        named = state["inputs"].get("clusterIdentifier")
        if not dependencies and named:  # a serving stack: its platform has the cluster
            names[state["urn"]] = str(named).rpartition("/")[2]
            continue
        clusters = [urn for urn in dependencies if by_urn.get(urn, {}).get("type") == CLUSTER]
        if len(clusters) != 1:
            raise CommandError(
                f"{state['urn']}: its kubeconfig must come from one cluster, got {len(clusters)}"
            )
        names[state["urn"]] = _cluster_name(by_urn[clusters[0]])
    return names


def _cluster_name(cluster: dict[str, Any]) -> str:
    """Return the name of a cluster; a cluster that is only read has an ID but no inputs."""
    name: str | None = cluster.get("inputs", {}).get("name")
    return str(cluster["id"]).rpartition("/")[2] if name is None else name
