"""`gke-inference images build`: builds own images, in Cloud Build or locally.

Cloud Build takes the sources of a commit from the connected repository of the stack's triggers, or
from an archive that is uploaded to the stack's bucket.
"""

import io
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gke_inference.catalogue.versions import Build, builds
from gke_inference.images.build_steps import (
    METADATA,
    BuildError,
    Target,
    build_command,
    build_request,
)
from infra.plan.image_names import ImagesPlan
from infra.stack import Images
from scripts.images.actions import ImagesError, check_names
from scripts.shared.google_cloud import Cloud
from twin.host.paths import REPOSITORY

Say = Callable[[str], None]
_METADATA = f"build/images/{METADATA}"
_HOST = "cloudbuild.googleapis.com"
_SOURCES: Final = "workloads"
"""Folder that every build needs."""
_ANYWHERE: Final = "global"
"""Location of builds without a connection, as of `gcloud builds submit`. New projects may have no
quota for builds in a region (docs.cloud.google.com/build/docs/locations, read 2026-11-28)."""
_POLL_SECONDS: Final = 5.0
_RUNNING: Final = ("PENDING", "QUEUED", "WORKING")


class Objects(Protocol):
    """Object storage, as `workloads.transfer.store.Store` has it."""

    def get(self, bucket: str, name: str) -> Any:
        """Return an object's description, or None if there is none."""
        ...

    def upload(
        self, bucket: str, name: str, stream: io.RawIOBase, size: int, *, is_final: bool
    ) -> str:
        """Write an object, which must not exist if `is_final`."""
        ...


@dataclass(frozen=True)
class Started:
    """A build that Cloud Build has accepted."""

    target: str
    """Image, such as `body-router`."""
    name: str
    """`projects/P/locations/L/builds/ID`."""
    log: str
    """Address of its log."""


def targets(plan: ImagesPlan, only: list[str], revision: str) -> list[Target]:
    """Return the images to build for a stack: the engines of its models, and the callout.

    Raises:
        ImagesError: The stack has no repository, or does not build a given image.
    """
    images = _images(plan)
    known = plan.built
    urls = [region.repository for region in plan.regions.values()]
    check_names(only, known)
    return [
        Target(
            build=builds()[name],
            refuse_severity=(
                images.build.refuse_severity.value if images.build else "critical"
            ).upper(),
            repositories=tuple(url for url in urls if url is not None),
            revision=revision,
        )
        for name in known
        if not only or name in only
    ]


def call_of(plan: ImagesPlan, target: Target) -> tuple[str, dict[str, Any]]:
    """Return the API call that builds an image at a commit: its trigger's, or a build of its own.

    Raises:
        ImagesError: The stack does not use Cloud Build, or the image cannot be built.
    """
    images = _images(plan)
    if images.build is None:
        raise ImagesError(
            "images.build: is required in the stack, unless you build on this machine with --local"
        )
    if images.build.source is not None:
        url = trigger_url(plan.project, images.build.source.repository, target.build)
        return f"{url}:run", {"source": {"commitSha": target.revision}}
    source = {
        "bucket": plan.sources,
        "object": archive_name(target.revision),
    }
    url = f"{_HOST}/v1/projects/{plan.project}/locations/{_ANYWHERE}/builds"
    return url, {**_request(plan, target), "source": {"storageSource": source}}


def archive_name(revision: str) -> str:
    """Return the name of the object with the sources of a commit."""
    return f"{revision}.tar.gz"


def is_from_checkout(plan: ImagesPlan) -> bool:
    """Return whether Cloud Build gets the sources from this checkout."""
    images = plan.settings
    return images is not None and images.build is not None and images.build.source is None


def upload(plan: ImagesPlan, revision: str, store: Objects) -> None:
    """Upload the sources of a commit for builds from this checkout, unless they are there.

    Raises:
        ImagesError: This is no git checkout, or it has no such commit.
        TransferError: Cloud Storage refuses.
    """
    bucket, name = plan.sources, archive_name(revision)
    if store.get(bucket, name) is not None:
        return
    argv = ["git", "-C", str(REPOSITORY), "archive", "--format=tar.gz", revision, "--", _SOURCES]
    ran = subprocess.run(argv, capture_output=True, check=False)
    if ran.returncode:
        reason = " ".join(ran.stderr.decode(errors="replace").split())
        raise ImagesError(
            f"--revision: must be a commit of this checkout, got {revision!r}: {reason}"
        )
    store.upload(bucket, name, io.BytesIO(ran.stdout), len(ran.stdout), is_final=False)  # pyrefly: ignore[bad-argument-type] - it only reads and seeks


def uncommitted() -> list[str]:
    """Return the changed files below `workloads/` that no commit has; none outside of git."""
    argv = ["git", "-C", str(REPOSITORY), "status", "--porcelain", "--", _SOURCES]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    return [line[3:] for line in ran.stdout.splitlines()]


def trigger_url(project: str, source: str, build: Build) -> str:
    """Return the address of the trigger that builds an image.

    Args:
        project: Project of the triggers.
        source: `images.build.source.repository`.
        build: The image.
    """
    place = source.split("/")[3]
    return f"{_HOST}/v1/projects/{project}/locations/{place}/triggers/gke-inference-{build.target}"


def show(plan: ImagesPlan, target: Target, *, local: bool) -> dict[str, Any]:
    """Return the planned action: the command, or the API call and the build that it starts.

    Raises:
        ImagesError: The image cannot be built.
    """
    if local:
        return {"command": shlex.join(_checked(target, _METADATA))}
    url, body = call_of(plan, target)
    shown = {"call": f"POST https://{url}", "body": body}
    return shown if is_from_checkout(plan) else {**shown, "build": _request(plan, target)}


def _request(plan: ImagesPlan, target: Target) -> dict[str, Any]:
    try:
        account = f"projects/{plan.project}/serviceAccounts/{plan.builder_email}"
        return build_request(target, account)
    except BuildError as error:
        raise ImagesError(str(error)) from None


def start(cloud: Cloud, plan: ImagesPlan, target: Target, say: Say) -> Started:
    """Start a build in Cloud Build and report the URL of its log.

    Raises:
        ImagesError: The base has no digest, or the stack does not use Cloud Build.
        CloudError: Google refused.
    """
    _checked(target)
    url, body = call_of(plan, target)
    answer = cloud.post(url, body)
    build: dict[str, Any] = answer.get("metadata", {}).get("build", {})
    log = str(build.get("logUrl") or answer.get("name", "started"))
    say(f"{target.build.target}: {log}")
    location = url.partition("/locations/")[2].partition("/")[0]
    name = f"projects/{plan.project}/locations/{location}/builds/{build.get('id', '')}"
    return Started(target.build.target, name, log)


def wait(cloud: Cloud, builds: Mapping[str, Started], say: Say) -> None:
    """Wait until builds have succeeded.

    Args:
        cloud: The project's APIs.
        builds: Builds by any key.
        say: Prints a line.

    Raises:
        ImagesError: One failed.
        CloudError: Google refused.
    """
    for each in builds.values():
        found = cloud.get(f"{_HOST}/v1/{each.name}")
        while str(found.get("status")) in _RUNNING:
            cloud.sleep(_POLL_SECONDS)
            found = cloud.get(f"{_HOST}/v1/{each.name}")
        if found.get("status") != "SUCCESS":
            detail = found.get("statusDetail") or f"see {each.log}"
            raise ImagesError(
                f"{each.target}: the build ended with {found.get('status')}: {detail}"
            )
        say(f"{each.target}: built")


def run_local(target: Target) -> None:
    """Build with this machine's BuildKit and push.

    Raises:
        ImagesError: Docker is missing, or the build failed.
    """
    argv = _checked(target, _METADATA)
    if shutil.which("docker") is None:
        raise ImagesError(
            "--local: needs docker on PATH; install Docker with buildx, or omit --local"
        )
    (REPOSITORY / _METADATA).parent.mkdir(parents=True, exist_ok=True)
    if subprocess.run(argv, cwd=REPOSITORY, check=False).returncode:
        raise ImagesError(f"{target.build.target}: the build failed")


def _checked(target: Target, metadata: str = METADATA) -> list[str]:
    """Return the build command, after checking that the base is pinned."""
    if target.build.unpinned:
        raise ImagesError(
            f"{target.build.unpinned[0]}: must have a digest in versions.yaml, got none; run"
            " `gke-inference images pin`"
        )
    return build_command(target, metadata=metadata)


def _images(plan: ImagesPlan) -> Images:
    if plan.settings is None:
        raise ImagesError(
            "images: is required in the stack (images.repository: name of the repository)"
        )
    return plan.settings
