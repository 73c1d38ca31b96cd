"""Images that the twin's Cloud Build pushed to repositories of the twin's projects.

Only names, tags and digests are kept: pods run the programs of the checkout (agent.image.own).
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from twin.host.paths import TwinPaths
from twin.world.store import Record, list_resources

REPOSITORY: Final = "gcp:artifactregistry/repository:Repository"
REMOTE: Final = "REMOTE_REPOSITORY"
_TAGGED: Final = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/"
    r"(?P<image>[^/:@]+):(?P<tag>[^/:@]+)"
)


def repositories(paths: TwinPaths, project: str) -> list[Record]:
    """Return the container image repositories of a project of the twin's cloud."""
    return [each for each in list_resources(paths, (REPOSITORY,)) if each.project == project]


class PushRefused(Exception):
    """A push that Artifact Registry refuses; one line."""


@dataclass(frozen=True)
class Tagged:
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG`, in parts."""

    location: str
    project: str
    repository: str
    image: str
    tag: str

    @property
    def parent(self) -> str:
        """Resource name of the repository."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"


def tagged(reference: str) -> Tagged | None:
    """Return the parts of a reference to Artifact Registry by tag; None for another one."""
    found = _TAGGED.fullmatch(reference)
    return None if found is None else Tagged(**found.groupdict())


def push(paths: TwinPaths, reference: str, digest: str) -> None:
    """Record an image under a tag.

    Raises:
        PushRefused: There is no such repository, or its tags are immutable and the tag exists with
            another digest (rule cloud.build).
    """
    name = tagged(reference)
    repository = None if name is None else _repository(paths, name)
    if name is None or repository is None:
        raise PushRefused(f"{reference}: name unknown: the repository was not found")
    known = _read(paths)
    tags = known.setdefault(_key(repository), {})
    there = tags.get(f"{name.image}:{name.tag}")
    if there not in (None, digest):
        raise PushRefused(
            f"{reference}: the tag is immutable: cannot update tag {name.tag} from {there}"
        )
    tags[f"{name.image}:{name.tag}"] = digest
    file = paths.artifacts_file
    partial = file.with_suffix(".tmp")
    partial.write_text(json.dumps(known, indent=1))
    partial.replace(file)


def digest_of(paths: TwinPaths, reference: str) -> str | None:
    """Return the digest of a tag; None if no repository of the twin has it."""
    name = tagged(reference)
    repository = None if name is None else _repository(paths, name)
    if name is None or repository is None:
        return None
    return _read(paths).get(_key(repository), {}).get(f"{name.image}:{name.tag}")


def is_built(paths: TwinPaths, project: str, image: str, version: str) -> bool:
    """Return whether every repository of a project has an image of ours, from any commit.

    Args:
        paths: The twin.
        project: The project.
        image: Name of the image, such as `body-router`.
        version: Its version, such as `0.1.0`.
    """
    own = [each for each in repositories(paths, project) if each.inputs.get("mode") != REMOTE]
    known = _read(paths)
    return bool(own) and all(
        any(tag.startswith(f"{image}:{version}-") for tag in known.get(_key(each), {}))
        for each in own
    )


def _repository(paths: TwinPaths, name: Tagged) -> Record | None:
    found = repositories(paths, name.project)
    return next((each for each in found if each.id == name.parent), None)


def _key(repository: Record) -> str:
    """Return what identifies one life of a repository: its images are deleted with it."""
    return f"{repository.id} {repository.created}"


def _read(paths: TwinPaths) -> dict[str, dict[str, str]]:
    try:
        return json.loads(paths.artifacts_file.read_text())
    except FileNotFoundError:
        return {}
