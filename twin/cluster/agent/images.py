"""Simulated image pulls on nodes."""

import re
import threading
from collections.abc import Iterable

from gke_inference.catalogue.versions import engine_tags, is_placeholder
from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes.node_objects import STREAMING_LABEL
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.registries import REMOTE, REPOSITORY, upstream
from twin.wire.kube import JsonObject
from twin.world.capacity import World
from twin.world.rules import Rules
from twin.world.store import Record, list_resources

_LARGE = re.compile(r"vllm|diffusion")
"""Images with an engine, which are gigabytes in size."""
_IN_REPOSITORY = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/(?P<path>.+)"
)
_BOOT_DISK_LABEL = "cloud.google.com.node-restriction.kubernetes.io/gke-secondary-boot-disk"


def repositories(paths: TwinPaths, project: str) -> list[Record]:
    """Return the container image repositories of a project of the twin's cloud."""
    found = list_resources(paths)
    return [each for each in found if each.type == REPOSITORY and each.project == project]


def upstream_of(image: str, known: Iterable[Record], project: str) -> tuple[str, str]:
    """Return the image that a repository serves, and why it cannot; the reason is empty if it can.

    A remote repository serves the image of its upstream, any other repository its own content
    (agent.image.repository).

    Args:
        image: Reference of the image.
        known: The repositories of the project.
        project: The cluster's project; repositories of other projects are not known here.
    """
    found = _IN_REPOSITORY.fullmatch(image)
    if found is None or found["project"] != project:
        return image, ""
    for each in known:
        place = (each.inputs.get("location"), each.inputs.get("repositoryId"))
        if place == (found["location"], found["name"]):
            source = upstream(each)
            return (f"{source}/{found['path']}", "") if source else (image, "")
    return image, (
        f'Failed to pull image "{image}": failed to resolve reference "{image}": not found'
        f" (the twin's rule agent.image.repository; {found['location']} has no repository"
        f" {found['name']})"
    )


def missing(image: str, world: World, *, is_built: bool) -> str:
    """Return why an image cannot be pulled; empty if it can (agent.image.tags, agent.image.own).

    Args:
        image: Reference of the image.
        world: The twin's world, which can list further tags.
        is_built: Whether the project builds our own images, so that the placeholders in their
            place are not the checkout's programs.
    """
    if is_placeholder(image):
        return _unbuilt(image) if is_built else ""
    if "@" in image:
        return ""
    name, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "")
    first = name.partition("/")[0]
    full = name if "." in first or ":" in first else f"docker.io/{name}"
    tags = engine_tags().get(full)
    reference = f"{full}:{tag or 'latest'}"
    if tags is None or (tag or "latest") in tags or reference in world.image_tags:
        return ""
    return (
        f'Failed to pull image "{image}": failed to resolve reference "{reference}": not found'
        " (the twin's rule agent.image.tags; if the tag exists, add it to image_tags of"
        " capacity.yaml)"
    )


def missing_for(context: ClusterContext, image: str) -> str:
    """Return why nodes of a cluster cannot pull an image; empty if they can."""
    project = context.spec.project
    known = repositories(context.paths, project)
    served, problem = upstream_of(image, known, project)
    if problem:
        return problem
    is_built = is_placeholder(image) and any(each.inputs.get("mode") != REMOTE for each in known)
    return missing(served, World.load(context.paths.capacity_file), is_built=is_built)


def _unbuilt(image: str) -> str:
    return (
        f'Failed to pull image "{image}": failed to resolve reference "{image}": no such host'
        " (the twin's rule agent.image.own; the project has a repository: build the image, and pin"
        " its digest in the stack)"
    )


class Images:
    """Images that have been pulled on each node."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._there: dict[str, set[str]] = {}
        """Pulled images by UID of the node."""
        self._lock = threading.Lock()

    def pull_seconds(self, image: str, node: JsonObject) -> float:
        """Return the duration of a pull in seconds of Google's clock; 0 if the image is present."""
        with self._lock:
            if image in self._there.get(node["metadata"]["uid"], ()):
                return 0.0
        labels: dict[str, str] = node["metadata"].get("labels", {})
        if any(label.startswith(_BOOT_DISK_LABEL) for label in labels):
            return self._rules.seconds("agent.image.boot-disk")
        if not _LARGE.search(image):
            return self._rules.seconds("agent.image.small")
        if labels.get(STREAMING_LABEL) == "true":
            return self._rules.seconds("agent.image.streamed")
        return self._rules.seconds("agent.image.engine")

    def keep(self, image: str, node: JsonObject) -> None:
        """Record that an image is on a node."""
        with self._lock:
            self._there.setdefault(node["metadata"]["uid"], set()).add(image)

    def forget(self, node: JsonObject) -> None:
        """Remove the records of a node that is gone."""
        with self._lock:
            self._there.pop(node["metadata"]["uid"], None)
