"""Which container images can be pulled, by their references."""

import re
from collections.abc import Iterable
from typing import Final

from gke_inference.catalogue.versions import engine_tags, is_placeholder
from twin.host.paths import TwinPaths
from twin.wire.property_values import Json, as_object, get_path
from twin.world.capacity import World
from twin.world.store import Record, list_resources

REPOSITORY: Final = "gcp:artifactregistry/repository:Repository"
REMOTE: Final = "REMOTE_REPOSITORY"
_HUB: Final = "docker.io"
_IN_REPOSITORY = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/(?P<path>.+)"
)


def repositories(paths: TwinPaths, project: str) -> list[Record]:
    """Return the container image repositories of a project of the twin's cloud."""
    found = list_resources(paths)
    return [each for each in found if each.type == REPOSITORY and each.project == project]


def upstream(repository: Record) -> str:
    """Return the registry that a remote repository pulls from; empty for other repositories."""
    remote = as_object(repository.inputs.get("remoteRepositoryConfig")) or {}
    if get_path(remote, "dockerRepository.publicRepository") == "DOCKER_HUB":
        return _HUB
    return custom_upstream(remote).removeprefix("https://")


def custom_upstream(remote: Json) -> str:
    """Return the URI of the upstream of a remote repository; empty for Docker Hub."""
    paths = ("dockerRepository.customRepository.uri", "commonRepository.uri")
    return next((str(found) for path in paths if (found := get_path(remote, path))), "")


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


def missing_in(image: str, paths: TwinPaths, project: str) -> str:
    """Return why a project cannot pull an image; empty if it can."""
    known = repositories(paths, project)
    served, problem = upstream_of(image, known, project)
    if problem:
        return problem
    is_built = is_placeholder(image) and any(each.inputs.get("mode") != REMOTE for each in known)
    return missing(served, World.load(paths.capacity_file), is_built=is_built)


def _unbuilt(image: str) -> str:
    return (
        f'Failed to pull image "{image}": failed to resolve reference "{image}": no such host'
        " (the twin's rule agent.image.own; the project has a repository: build the image, and pin"
        " its digest in the stack)"
    )
