"""Refuses to deploy containers whose images exist nowhere, before anything is created."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import pulumi

from gke_inference.catalogue.input_error import InputError
from infra.plan import resolve
from infra.plan.image_names import ImagesPlan, repository_names
from infra.stack import Layer, Platform
from infra.stack.problems import StackError

UNBUILT: Final = "GKE_INFERENCE_UNBUILT_IMAGES"
"""Variable that permits an update without these images, with one of the values below."""
OUTPUTS: Final = "GKE_INFERENCE_STACK_OUTPUTS"
"""Variable with the path of the stack's outputs, as `pulumi stack output --json` prints them."""
ACCEPT: Final = "accept"
"""Deploy all: on the twin, which runs our programs from the checkout."""
FIRST: Final = "first"
"""`first:STACK`: register only APIs, image repository and triggers, for a targeted update."""
_SECRET: Final = "[secret]"  # noqa: S105 - what `pulumi` prints instead of one


def is_first_step(environment: Mapping[str, str], stack: str) -> bool:
    """Return whether only the APIs and the image supply chain are registered.

    Without `--target`, such an update would delete everything else. The variable therefore names
    the stack and comes with its outputs: one that is left over in a shell is refused.

    Raises:
        StackError: The variable has no known value, is for another stack, or has no outputs.
    """
    value = environment.get(UNBUILT, "")
    if value in {"", ACCEPT}:
        return False
    if value == f"{FIRST}:{stack}" and environment.get(OUTPUTS):
        return True
    rule = f"must be unset, {ACCEPT}, or {FIRST}:{stack} together with {OUTPUTS}"
    note = f": only `gke-inference images bootstrap --stack {stack}` sets these"
    raise StackError([InputError(UNBUILT, rule, value, note)])


def kept_outputs(platform: Platform, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the outputs of the stack before the first step, which registers them again.

    Raises:
        StackError: There is no such file, it has no outputs, or one of them is a secret; or this is
            a serving stack, which has no images of its own.
    """
    if platform.layer is Layer.SERVING:
        rule = f"must not be {FIRST}:STACK for a serving stack"
        raise StackError([InputError(UNBUILT, rule, environment.get(UNBUILT))])
    path = environment[OUTPUTS]
    rule = "must be a file with the output of `pulumi stack output --json`"
    try:
        outputs = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise StackError([InputError(OUTPUTS, rule, path)]) from None
    if not isinstance(outputs, dict):
        raise StackError([InputError(OUTPUTS, rule, path)])
    if _SECRET in json.dumps(outputs):
        raise StackError([InputError(OUTPUTS, "must have no secret, which would be lost", path)])
    return cast("dict[str, Any]", outputs)


def unbuilt_problem(images: ImagesPlan, stack: str, *, on_twin: bool = False) -> InputError | None:
    """Return the problem of a stack that deploys images of ours which no registry has.

    Args:
        images: Images of the stack.
        stack: Its name, for the command.
        on_twin: Whether it is deployed on the twin.
    """
    absent = sorted(repository_names()[name] for name in images.unbuilt)
    if not absent:
        return None
    owner = images.owner or stack
    step = f"`gke-inference images prepare --stack {owner}{'' if on_twin else ' --on cloud'}`"
    return InputError(
        "images.digests",
        f"must have {', '.join(absent)}, as only this repository's builds create these images",
        None,
        f": {step} is the first step (docs/images.md)",
    )


def refuse_unbuilt(platform: Platform, environment: Mapping[str, str]) -> None:
    """Refuse an update, and warn in a preview, if the stack deploys images that exist nowhere.

    Raises:
        StackError: This is an update, and nothing accepts such images.
    """
    problem = unbuilt_problem(resolve(platform).images, pulumi.get_stack())
    if problem is None:
        return
    if pulumi.runtime.is_dry_run():
        pulumi.log.warn(f"`pulumi up` in Google Cloud will be refused: {problem.sentence()}")
    elif environment.get(UNBUILT) != ACCEPT:
        raise StackError([problem])
