"""`gke-inference images prepare`: everything that a stack's own images need before its first `up`.

The steps are those of the other commands, in their order: create the repositories, build the
images that no digest pins, and read their digests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gke_inference.images.build_steps import Target
from infra.plan import Plan
from infra.plan.image_names import ImagesPlan
from scripts.images import bootstrap, build
from scripts.images.actions import ImagesError, Say, pin_stack
from scripts.images.registry import Registry, RegistryError
from scripts.shared.google_cloud import Cloud
from scripts.shared.pulumi_cli import PulumiCli


@dataclass(frozen=True)
class Place:
    """A project in Google Cloud or on the twin. Everything in it is opened on first use."""

    pulumi: Callable[[], PulumiCli]
    cloud: Callable[[], Cloud]
    registry: Registry
    objects: Callable[[], build.Objects]


def check(images: ImagesPlan, *, is_local: bool) -> list[str]:
    """Return the images to build, by their names in the lock, before anything is created.

    Raises:
        ImagesError: The stack cannot build them, or the checkout has changes that no commit has.
    """
    absent = bootstrap.check(images)
    if not absent or is_local:
        return absent
    if images.settings is None or images.settings.build is None:
        raise ImagesError(
            "images.build: is required in the stack (`build: {}` builds in Cloud Build from this"
            " checkout), unless you build on this machine with --local"
        )
    return absent


def check_committed() -> None:
    """Check that the commit of this checkout has its sources.

    Raises:
        ImagesError: Files below `workloads/` are not committed.
    """
    changed = build.uncommitted()
    if changed:
        more = f" and {len(changed) - 1} more" if changed[1:] else ""
        raise ImagesError(f"{changed[0]}{more}: must be committed: images are built from a commit")


def prepare(
    place: Place,
    stack: str,
    plan: Plan,
    absent: list[str],
    revision: str,
    say: Say,
    *,
    yes: bool,
    is_local: bool,
) -> dict[str, str]:
    """Create the repositories, build the images and return their digests, by name there.

    An image that every region already has at this commit is not built again.

    Args:
        place: The project.
        stack: Name of the stack.
        plan: The stack.
        absent: Images to build, of `check`.
        revision: Commit to build.
        say: Prints a line.
        yes: Whether to change the project without asking.
        is_local: Whether to build with Docker on this machine.

    Raises:
        ImagesError: A step failed; the next run continues there.
        CloudError: Google refused.
    """
    bootstrap.create(place.pulumi(), plan, stack, yes=yes)
    targets = [
        each
        for each in build.targets(plan.images, absent, revision)
        if not _exists(place.registry, each)
    ]
    if is_local:
        for target in targets:
            build.run_local(target)
    elif targets:
        _build(place, plan.images, targets, revision, say)
    digests = pin_stack(place.registry, plan.images, revision, absent, say)
    if len(digests) < len(absent):
        raise ImagesError(f"{len(absent) - len(digests)} digests could not be read; see above")
    return digests


def _build(
    place: Place, images: ImagesPlan, targets: list[Target], revision: str, say: Say
) -> None:
    if build.is_from_checkout(images):
        build.upload(images, revision, place.objects())
    cloud = place.cloud()
    started: Mapping[str, build.Started] = {
        each.build.name: build.start(cloud, images, each, say) for each in targets
    }
    build.wait(cloud, started, say)


def _exists(registry: Registry, target: Target) -> bool:
    """Return whether every region has an image at the commit."""
    for repository in target.repositories:
        try:
            registry.digest(f"{target.name(repository)}:{target.tag}")
        except RegistryError:
            return False
    return True
