"""`gke-inference images build`: builds own images, with the stack's triggers or locally."""

import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from gke_inference.catalogue.versions import Build, builds
from gke_inference.images.build_steps import (
    METADATA,
    BuildError,
    Target,
    build_command,
    build_request,
)
from infra.plan import resolve
from infra.plan.image_names import built, repository_url
from infra.plan.names import Names
from infra.stack import Images, Platform
from scripts.images.actions import ImagesError, check_names
from scripts.shared.google_cloud import Cloud
from twin.host.paths import REPOSITORY

Say = Callable[[str], None]
_METADATA = f"build/images/{METADATA}"
_HOST = "cloudbuild.googleapis.com"


def targets(platform: Platform, only: list[str], revision: str) -> list[Target]:
    """Return the images to build for a stack: the engines of its models, and the callout.

    Raises:
        ImagesError: The stack has no repository, or does not build a given image.
    """
    images = _images(platform)
    known = built(resolve(platform))
    check_names(only, known)
    return [
        Target(
            build=builds()[name],
            refuse_severity=(
                images.build.refuse_severity.value if images.build else "critical"
            ).upper(),
            repositories=tuple(repository_url(platform, region) for region in platform.regions),
            revision=revision,
        )
        for name in known
        if not only or name in only
    ]


def by_trigger(platform: Platform, target: Target) -> tuple[str, dict[str, Any]]:
    """Return the API call that runs a stack's trigger for an image at a commit.

    Raises:
        ImagesError: The stack has no triggers.
    """
    images = _images(platform)
    if images.build is None:
        raise ImagesError(
            "images.build: is required in the stack, unless you build on this machine with --local"
        )
    url = trigger_url(platform.project, images.build.source.repository, target.build)
    return f"{url}:run", {"source": {"commitSha": target.revision}}


def trigger_url(project: str, source: str, build: Build) -> str:
    """Return the address of the trigger that builds an image.

    Args:
        project: Project of the triggers.
        source: `images.build.source.repository`.
        build: The image.
    """
    place = source.split("/")[3]
    return f"{_HOST}/v1/projects/{project}/locations/{place}/triggers/gke-inference-{build.folder}"


def show(platform: Platform, target: Target, *, local: bool) -> dict[str, Any]:
    """Return the planned action: the command, or the API call and the build that it starts.

    Raises:
        ImagesError: The image cannot be built.
    """
    if local:
        return {"command": shlex.join(_checked(target, _METADATA))}
    url, body = by_trigger(platform, target)
    account = f"{Names(platform).image_builder()}@{platform.project}.iam.gserviceaccount.com"
    try:
        request = build_request(target, f"projects/{platform.project}/serviceAccounts/{account}")
    except BuildError as error:
        raise ImagesError(str(error)) from None
    return {"call": f"POST https://{url}", "body": body, "build": request}


def run_trigger(cloud: Cloud, platform: Platform, target: Target, say: Say) -> None:
    """Start a build in Cloud Build and report the URL of its log.

    Raises:
        ImagesError: The base has no digest, or the stack has no triggers.
        CloudError: Google refused.
    """
    _checked(target)
    url, body = by_trigger(platform, target)
    answer = cloud.post(url, body)
    build: dict[str, Any] = answer.get("metadata", {}).get("build", {})
    say(f"{target.build.folder}: {build.get('logUrl') or answer.get('name', 'started')}")


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
        raise ImagesError(f"{target.build.folder}: the build failed")


def _checked(target: Target, metadata: str = METADATA) -> list[str]:
    """Return the build command, after checking that the base is pinned."""
    if not target.build.base.digest:
        raise ImagesError(
            f"{target.build.base_entry}: must have a digest in versions.yaml, got"
            f" {target.build.base.reference}; run `gke-inference images pin`"
        )
    return build_command(target, metadata=metadata)


def _images(platform: Platform) -> Images:
    if platform.images is None:
        raise ImagesError(
            "images: is required in the stack (images.repository: name of the repository)"
        )
    return platform.images
