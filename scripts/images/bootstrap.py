"""`gke-inference images bootstrap`: the image repository and triggers, before anything else.

A platform needs images that only its own builds create, and the builds need resources of the same
stack. A targeted update creates these resources first. If nothing is deployed yet, the program
stops after them, because it cannot use outputs of resources that a targeted update leaves out.
"""

import shlex
from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.versions import builds
from infra.plan import resolve
from infra.plan.image_names import unbuilt
from infra.reading.built import ACCEPT, FIRST, UNBUILT
from infra.stack import Layer, Platform
from scripts.images.actions import ImagesError
from scripts.shared.pulumi_cli import PulumiCli

_COMPONENTS: Final = (
    "EngineRepository", "ImageAdmission", "ImageAttestor", "ImageBuild", "ImageBuilder",
)  # fmt: skip
"""The components that `infra.images.build_images` creates."""
TARGETS: Final = (
    "urn:pulumi:*::*::gcp:projects/service:Service::**",
    *(f"urn:pulumi:*::*::gke-inference:index:{name}::**" for name in _COMPONENTS),
    *(f"urn:pulumi:*::*::gke-inference:index:{name}$**" for name in _COMPONENTS),
)
"""URNs of the update: APIs, these components, and their children."""


def check(platform: Platform) -> list[str]:
    """Return the images that must be built before the stack can be deployed.

    Raises:
        ImagesError: The stack has no repository for them, or a base has no digest, so that nothing
            would build its image.
    """
    if platform.layer is Layer.SERVING:
        raise ImagesError("--stack: must not be a serving stack; its platform has the repository")
    if platform.images is None:
        raise ImagesError(
            "images: is required in the stack (images.repository: name of the repository)"
        )
    absent = unbuilt(resolve(platform))
    bare = sorted({builds()[e].base_entry for e in absent if not builds()[e].base.digest})
    if bare:
        raise ImagesError(
            f"{', '.join(bare)}: must have a digest in versions.yaml to build {', '.join(absent)};"
            " run `gke-inference images pin`"
        )
    return absent


def arguments(stack: str, *, yes: bool) -> list[str]:
    """Return the arguments of `pulumi`."""
    targets = [part for each in TARGETS for part in ("--target", each)]
    return ["up", "-s", stack, *targets, *(["--yes", "--skip-preview"] if yes else [])]


def shown(stack: str, *, yes: bool) -> str:
    """Return the command of a first deployment as a shell takes it."""
    return f"{UNBUILT}={FIRST} {shlex.join(['pulumi', *arguments(stack, yes=yes)])}"


def create(cli: PulumiCli, stack: str, *, yes: bool) -> None:
    """Create the repository and what builds into it, and nothing else.

    Raises:
        ImagesError: The update failed.
        CommandError: `pulumi` is not on PATH, or has no such stack.
    """
    mode = ACCEPT if cli.outputs(stack) else FIRST
    if cli.run(*arguments(stack, yes=yes), environment={UNBUILT: mode}).returncode:
        raise ImagesError(f"up of {stack} failed; see above. Run it again to continue")


def next_steps(platform: Platform, stack: str, absent: list[str]) -> Iterator[str]:
    """Yield the commands that follow."""
    only = " ".join(f"--only {name}" for name in absent)
    if not absent:
        yield "Every image of this repository's builds has a digest: run `pulumi up`."
        return
    local = "" if platform.images is not None and platform.images.build is not None else " --local"
    yield f"gke-inference images build --stack {stack}{local} {only}"
    yield f"gke-inference images pin --stack {stack} {only}   # after the builds"
