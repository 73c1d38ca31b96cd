"""`gke-inference images bootstrap`: the image repository and triggers, before anything else.

A platform needs images that only its own builds create, and the builds need resources of the same
stack. A targeted update creates these resources first. The program stops after them, because it
cannot use outputs of resources that a targeted update leaves out, and keeps the stack's outputs.
"""

import json
import re
import shlex
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gke_inference.catalogue.versions import builds
from infra.deploy.project import service_resource
from infra.plan import Plan
from infra.plan.image_names import ImagesPlan
from infra.reading.built import FIRST, OUTPUTS, UNBUILT
from scripts.images.actions import ImagesError
from scripts.shared.pulumi_cli import PulumiCli

_COMPONENTS: Final = (
    "ImageAdmission",
    "ImageAttestor",
    "ImageBuild",
    "ImageBuilder",
    "ImageSources",
)
"""Types of components that only `infra.deploy.images.build_images` creates."""
_RESUMED: Final = tuple(
    f"urn:pulumi:*::*::gke-inference:index:{name}{end}"
    for name in ("ImageAttestor", "ImageBuild", "ImageBuilder", "ImageSources")
    for end in ("::", "$")
)
"""Starts of targets of which nothing outside the first step is a dependent."""
_REPOSITORY: Final = "urn:pulumi:*::*::gke-inference:index:EngineRepository"
TARGETS: Final = (
    "urn:pulumi:*::*::gcp:projects/service:Service::**",
    *(f"urn:pulumi:*::*::gke-inference:index:{name}::**" for name in _COMPONENTS),
    *(f"urn:pulumi:*::*::gke-inference:index:{name}$**" for name in _COMPONENTS),
    f"{_REPOSITORY}::*-images",
    f"{_REPOSITORY}$gcp:artifactregistry/repository:Repository::*-images",
    f"{_REPOSITORY}$gcp:artifactregistry/repositoryIamMember:RepositoryIamMember::*-images-writer-*",
)
"""URNs of the update: APIs, image components, and their children.

Nothing else may match: the program of the first step leaves it out, so that the update would delete
it. Nodes read repositories of other projects through an `EngineRepository` of their region.
"""


def check(images: ImagesPlan) -> list[str]:
    """Return the images that must be built before the stack can be deployed.

    Raises:
        ImagesError: The stack has no repository for them, or a base has no digest, so that nothing
            would build its image.
    """
    if images.owner is not None:
        raise ImagesError(
            "--stack: must not be a serving stack; its platform"
            f" {images.owner!r} has the repository"
        )
    if images.settings is None:
        raise ImagesError(
            "images: is required in the stack, such as `images: {repository: engines, build: {}}`,"
            " got none"
        )
    absent = images.unbuilt
    bare = sorted({each for name in absent for each in builds()[name].unpinned})
    if bare:
        raise ImagesError(
            f"{', '.join(bare)}: must have a digest in versions.yaml to build {', '.join(absent)},"
            " got none: run `gke-inference images pin`"
        )
    return absent


def missing_targets(plan: Plan, known: Collection[str]) -> list[str]:
    """Return the targets of a first step for a stack that has resources.

    The engine refuses to target a resource if others depend on it and the program leaves those out.
    Therefore, existing resources are no targets, except for those of components that only the
    first step itself depends on. So it resumes a component of several resources that is half made,
    and adds the grants of a new builder to an attestor.

    Args:
        plan: The stack.
        known: URNs of its resources.
    """
    service, components, repository = TARGETS[0], TARGETS[1:-3], TARGETS[-3:]
    wanted = [service.replace("**", service_resource(each)) for each in plan.project.services]
    wanted += components
    for region in plan.regions:
        wanted += [each.replace("*-images", f"{region}-images") for each in repository]
    return [
        each
        for each in wanted
        if each.startswith(_RESUMED)
        or not any(re.fullmatch(expression(each), urn) for urn in known)
    ]


def expression(target: str) -> str:
    """Return the regular expression of a target: `**` is anything, `*` has no colon."""
    escaped = re.escape(target)
    return escaped.replace(r"\*\*", ".*").replace(r"\*", "[^:]*")


def arguments(stack: str, *, yes: bool, targets: Iterable[str]) -> list[str]:
    """Return the arguments of `pulumi`."""
    chosen = [part for each in targets for part in ("--target", each)]
    return ["up", "-s", stack, *chosen, *(["--yes", "--skip-preview"] if yes else [])]


def variables(stack: str, outputs: str) -> dict[str, str]:
    """Return the environment of a first step.

    Args:
        stack: Name of the stack.
        outputs: Path of its outputs.
    """
    return {UNBUILT: f"{FIRST}:{stack}", OUTPUTS: outputs}


def deployed_targets(cli: PulumiCli, plan: Plan, stack: str) -> Sequence[str]:
    """Return the targets of a first step, which depend on the resources of the stack.

    Raises:
        CommandError: `pulumi` is not on PATH, or has no such stack.
    """
    resources: list[dict[str, Any]] = cli.deployment(stack).get("resources") or []
    known = [str(each["urn"]) for each in resources]
    return missing_targets(plan, known) if known else TARGETS


def shown(stack: str, *, yes: bool, targets: Iterable[str]) -> Iterator[str]:
    """Yield the commands of a first step as a shell takes them."""
    file = f"/tmp/{stack}-outputs.json"  # noqa: S108 - of the user, who reads the command
    yield f"pulumi stack output --json -s {shlex.quote(stack)} > {shlex.quote(file)}"
    given = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables(stack, file).items())
    yield f"{given} {shlex.join(['pulumi', *arguments(stack, yes=yes, targets=targets)])}"


def create(cli: PulumiCli, plan: Plan, stack: str, *, yes: bool) -> None:
    """Create the repository and what builds into it, and nothing else.

    Raises:
        ImagesError: The update failed, or was not confirmed.
        CommandError: `pulumi` is not on PATH, or has no such stack.
    """
    with tempfile.TemporaryDirectory(prefix="gke-inference-images-") as folder:
        file = Path(folder) / "outputs.json"
        file.write_text(json.dumps(cli.outputs(stack)), encoding="utf-8")
        environment = variables(stack, str(file))
        given = arguments(stack, yes=yes, targets=deployed_targets(cli, plan, stack))
        code = cli.run(*given, environment=environment).returncode
    if code:
        raise ImagesError(
            f"`pulumi up` of {stack} ended with code {code}; nothing is lost, run it again"
        )


def next_steps(images: ImagesPlan, stack: str, absent: list[str]) -> Iterator[str]:
    """Yield the commands that follow."""
    only = " ".join(f"--only {name}" for name in absent)
    if not absent:
        yield "Every image of this repository's builds has a digest: run `pulumi up`."
        return
    settings = images.settings
    local = "" if settings is not None and settings.build is not None else " --local"
    yield f"gke-inference images build --stack {stack}{local} {only}"
    yield f"gke-inference images pin --stack {stack} {only}   # after the builds"
