"""Which container images can be pulled, by their references."""

import re
from collections.abc import Iterable
from typing import Final

from gke_inference.catalogue.versions import engine_tags, is_placeholder
from twin.host.paths import TwinPaths
from twin.wire.property_values import Json, as_object, get_path
from twin.world.built_images import REMOTE, is_built, repositories
from twin.world.capacity import World
from twin.world.store import Record

_HUB: Final = "docker.io"
_IN_REPOSITORY = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/(?P<path>.+)"
)


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


def missing(image: str, world: World, *, is_unbuilt: bool) -> str:
    """Return why an image cannot be pulled; empty if it can (agent.image.tags, agent.image.own).

    Args:
        image: Reference of the image.
        world: The twin's world, which can list further tags.
        is_unbuilt: Whether the project has a repository for our own images and not yet this one, so
            that the placeholder in its place is not the checkout's program.
    """
    if is_placeholder(image):
        return _unbuilt(image) if is_unbuilt else ""
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
    is_unbuilt = (
        is_placeholder(image)
        and any(each.inputs.get("mode") != REMOTE for each in known)
        and not is_pushed(image, paths, project)
    )
    return missing(served, World.load(paths.capacity_file), is_unbuilt=is_unbuilt)


def is_pushed(image: str, paths: TwinPaths, project: str) -> bool:
    """Return whether the twin's Cloud Build pushed an image of ours to a project's repositories.

    Args:
        image: Its placeholder in the lock, such as `gke-inference.invalid/callout:v0.1.0`.
        paths: The twin.
        project: The project.
    """
    name, _, tag = image.rpartition("/")[2].partition(":")
    return is_built(paths, project, name, tag.removeprefix("v"))


def _unbuilt(image: str) -> str:
    return (
        f'Failed to pull image "{image}": failed to resolve reference "{image}": no such host'
        " (the twin's rule agent.image.own; the project has a repository: build the image with"
        " `gke-inference images prepare`)"
    )
