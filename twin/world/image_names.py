"""Which container images can be pulled, by their references."""

from gke_inference.catalogue.versions import engine_tags, is_placeholder
from twin.host.paths import TwinPaths
from twin.world.capacity import World
from twin.world.store import list_resources

_REPOSITORY = "gcp:artifactregistry/repository:Repository"


def has_repository(paths: TwinPaths, project: str) -> bool:
    """Return whether a project of the twin's cloud has a container image repository."""
    return any(
        each.type == _REPOSITORY and each.project == project for each in list_resources(paths)
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
    is_built = is_placeholder(image) and has_repository(paths, project)
    return missing(image, World.load(paths.capacity_file), is_built=is_built)


def _unbuilt(image: str) -> str:
    return (
        f'Failed to pull image "{image}": failed to resolve reference "{image}": no such host'
        " (the twin's rule agent.image.own; the project has a repository: build the image, and pin"
        " its digest in the stack)"
    )
