"""Refuses to deploy containers whose images exist nowhere, before anything is created."""

from collections.abc import Mapping
from typing import Final

import pulumi

from gke_inference.catalogue.input_error import InputError
from infra.plan import resolve
from infra.plan.image_names import repository_names, unbuilt
from infra.stack import Platform
from infra.stack.problems import StackError

UNBUILT: Final = "GKE_INFERENCE_UNBUILT_IMAGES"
"""Variable that permits an update without these images, with one of the values below."""
ACCEPT: Final = "accept"
"""Deploy all: on the twin, which runs our programs from the checkout, or a targeted update."""
FIRST: Final = "first"
"""Deploy only APIs, image repository and triggers: the first update of a stack."""


def unbuilt_problem(platform: Platform, stack: str) -> InputError | None:
    """Return the problem of a stack that deploys images of ours which no registry has.

    Args:
        platform: The stack.
        stack: Its name, for the command.
    """
    absent = sorted(repository_names()[name] for name in unbuilt(resolve(platform)))
    if not absent:
        return None
    return InputError(
        "images.digests",
        f"must have {', '.join(absent)}, as only this repository's builds create these images",
        None,
        f": `gke-inference images bootstrap --stack {stack}` is the first step (docs/images.md)",
    )


def refuse_unbuilt(platform: Platform, environment: Mapping[str, str]) -> None:
    """Refuse an update, and warn in a preview, if the stack deploys images that exist nowhere.

    Raises:
        StackError: This is an update, and nothing accepts such images.
    """
    if environment.get(UNBUILT) in {ACCEPT, FIRST}:
        return
    problem = unbuilt_problem(platform, pulumi.get_stack())
    if problem is None:
        return
    if not pulumi.runtime.is_dry_run():
        raise StackError([problem])
    pulumi.log.warn(f"`up` will be refused: {problem.sentence()}")
