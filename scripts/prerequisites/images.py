"""Container images that the stack runs, and the connection that builds them."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gke_inference.catalogue.versions import Build, builds, images, is_placeholder
from scripts.images.build import trigger_url
from scripts.images.registry import RegistryError, host_of
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import NotFound, ServiceDisabled
from scripts.terminal.console import CommandError
from twin.toolchain import ToolError

_BUILD: Final = "cloudbuild.googleapis.com/v2"
_REPOSITORIES: Final = "artifactregistry.googleapis.com/v1"
_ABSENT: Final = ("MANIFEST_UNKNOWN", "NAME_UNKNOWN", "404 Not Found")
"""Error codes of a registry for a missing image (OCI distribution specification)."""


def references(project: Project) -> dict[str, str]:
    """Return the name in the lock of each image in use, by reference.

    Images that are pulled through a cache are referenced in their original registry: it must have
    them, and `up` creates the cache.
    """
    plan, known = project.plan.images, images()
    found: dict[str, str] = {}
    for region in plan.regions.values():
        for name in plan.needed:
            reference = known[name].reference
            found.setdefault(region.from_repository.get(reference, reference), name)
    return found


def container_images(project: Project) -> Iterator[Finding]:
    """Yield whether a registry has each image; a tag may have been deleted or never created.

    An image that a registry does not have is missing; without an answer it cannot be seen.
    """
    for reference, name in references(project).items():
        yield _image(project, name, reference)


def _image(project: Project, name: str, reference: str) -> Finding:
    subject, which = "image", _short(reference)
    if is_placeholder(reference):
        return _unbuilt(project, name, which)
    try:
        digest = project.registry.digest(reference)
    except RegistryError as error:
        text = str(error)
        if any(each in text for each in _ABSENT):
            if reference.startswith(images()[name].repository):
                text += "; the release must exist"
                return Finding(subject, which, State.MISSING, text)
            return Finding(subject, which, State.MISSING, text, _make(project, name))
        return Finding(subject, which, State.UNSEEN, text)
    except (CommandError, ToolError) as error:
        command = "gke-inference tools --with images"
        return Finding(subject, which, State.UNSEEN, str(error), command)
    return Finding(subject, which, State.MET, f"the registry has {digest[:19]}")


def _unbuilt(project: Project, name: str, which: str) -> Finding:
    """Return what is left to do for an image that only our builds create and no digest pins."""
    known, build, missing = images(), builds()[name], State.MISSING
    if all(region.repository is None for region in project.plan.images.regions.values()):
        says = (
            "only this repository's builds create it; add"
            " `images: {repository: engines, build: {}}` to the stack"
        )
        return Finding("image", which, missing, says)
    if build.unpinned:
        says = f"nothing builds it, because {build.unpinned[0]} has no digest"
        return Finding("image", which, missing, says, "gke-inference images pin")

    prepare = f"gke-inference images prepare --stack {_owner(project)}{project.where.option}"

    def look() -> Finding:
        for url in _supply_chain(project, build):
            try:
                project.cloud.get(url)
            except (NotFound, ServiceDisabled) as error:
                off = f"{error.service} is on and " if isinstance(error, ServiceDisabled) else ""
                says = f"build it once {off}{url.split('/')[-2]}/{url.split('/')[-1]} exists"
                return Finding("image", which, State.LATER, says, prepare)
        if project.has_built(known[name].reference):
            says = "in the twin's repositories; in Google Cloud, `up` needs its digest in the stack"
            return Finding("image", which, State.MET, says)
        return Finding("image", which, missing, "no digest in images.digests", prepare)

    return judged(project, "image", which, look)


def _supply_chain(project: Project, build: Build) -> Iterator[str]:
    """Yield the repositories and the trigger that the stack creates for an image."""
    platform = project.plan.platform
    images = platform.images
    if images is None:
        return
    for name, region in platform.regions.items():
        if region.existing.repository is None:
            path = f"locations/{name}/repositories/{images.repository}"
            yield f"{_REPOSITORIES}/projects/{project.id}/{path}"
    if images.build is not None and images.build.source is not None:
        yield trigger_url(project.id, images.build.source.repository, build)


def _short(reference: str) -> str:
    """Return `NAME:TAG from REGISTRY`, or the first digits of the digest instead of the tag."""
    name, mark, digest = reference.partition("@sha256:")
    short = name.rpartition("/")[2]
    if mark:
        short = f"{short.partition(':')[0]}{mark}{digest[:12]}"
    return f"{short} from {host_of(reference)}"


def _make(project: Project, name: str) -> str:
    action = "build" if name in builds() else "mirror"
    return f"gke-inference images {action} --stack {_owner(project)} --only {name}"


def _owner(project: Project) -> str:
    return project.plan.images.owner or project.stack


def connection(project: Project) -> Iterator[Finding]:
    """Yield whether Cloud Build is connected to the sources of own images."""
    platform = project.plan.platform
    if platform.images is None or platform.images.build is None:
        return
    if platform.images.build.source is None:
        return
    repository = platform.images.build.source.repository
    connected, _, short = repository.partition("/repositories/")
    owner, region, name = (connected.split("/")[at] for at in (1, 3, 5))
    where = f"--project={owner} --region={region}"
    yield _judged(
        project,
        "build connection",
        f"{name} in {region}",
        connected,
        f"gcloud builds connections create github {name} {where}",
        _connection_problem,
    )
    yield _judged(
        project,
        "build repository",
        f"{short} of {name} in {region}",
        repository,
        f"gcloud builds repositories create {short} {where} --connection={name} --remote-uri=URL",
        lambda _: ("", ""),
    )


def _judged(
    project: Project,
    subject: str,
    name: str,
    path: str,
    command: str,
    problem: Callable[[Mapping[str, Any]], tuple[str, str]],
) -> Finding:
    def look() -> Finding:
        try:
            found = project.cloud.get(f"{_BUILD}/{path}")
        except NotFound:
            return Finding(subject, name, State.MISSING, "there is none", command)
        says, fix = problem(found)
        if says:
            return Finding(subject, name, State.MISSING, says, fix)
        return Finding(subject, name, State.MET, "installed")

    return judged(project, subject, name, look)


def _connection_problem(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a connection cannot start builds, and the fix; empty if it can.

    Fields: docs.cloud.google.com/build/docs/api/reference/rest/v2/projects.locations.connections
    (2026-11-22). Connections to other hosts than GitHub have no steps by hand.
    """
    if found.get("disabled"):
        return "is disabled", ""
    installation: dict[str, str] = found.get("installationState", {})
    stage = installation.get("stage", "COMPLETE")
    if stage == "COMPLETE":
        return "", ""
    address = installation.get("actionUri", "")
    return f"is {stage}; must be COMPLETE", f"xdg-open {shlex.quote(address)}" if address else ""
