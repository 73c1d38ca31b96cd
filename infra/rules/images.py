"""Rules about images: digests are of images there are, and to enforce attestation takes all."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.versions import image as lock_image
from infra.plan import Plan, resolve
from infra.plan.image_names import engines, needed, repository_names
from infra.stack import Attestation, Layer, Platform
from infra.stack.problems import join, one_of

_BESIDE = frozenset({"callout", "guardrails", "relay", "stream"})
"""Programs of ours that see what clients send, by the name of the image."""
_BY_TAG = ("dev", "local")
"""Environments whose engines may run by tag, unasked."""


def check_images(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the images of a platform."""
    images = platform.images
    if images is None:
        return
    known = sorted(set(repository_names().values()))
    for name in images.digests:
        if name not in known:
            yield one_of(join("images", "digests", name), name, known)


def check_pinned(plan: Plan) -> Iterator[InputError]:
    """Yield the engines, and the programs of ours, that run by tag where nobody said why they may.

    A tag can be moved, and so can what is served; a development stack may live with that.

    Args:
        plan: A stack without any other fault, resolved.
    """
    platform = plan.platform
    images = platform.images
    if platform.environment in _BY_TAG or platform.unpinned_images is not None:
        return
    if images is not None and images.attestation is Attestation.ENFORCE:
        return  # check_attested asks for more
    digests = {} if images is None else images.digests
    names = repository_names()
    absent = sorted(
        names[each]
        for each in _ours(plan)
        if not lock_image(each).digest and names[each] not in digests
    )
    if absent:
        yield InputError(
            "images.digests",
            f"must have {', '.join(absent)} where environment is not {' or '.join(_BY_TAG)}",
            None,
            ": `gke-inference images pin --stack` finds them, and until then 'unpinned_images'"
            " says why they may run by tag",
        )


def _ours(plan: Plan) -> set[str]:
    """Return the engines that a stack runs, and our programs beside them.

    Of a platform these are not the engines: serving stacks say which of them run.
    """
    left = engines(plan) if plan.platform.layer is not Layer.PLATFORM else set[str]()
    return left | (_BESIDE & set(needed(plan)))


def check_attested(platform: Platform) -> Iterator[InputError]:
    """Yield the images that would not be admitted, where nothing else may run.

    Args:
        platform: A stack without any other fault, as it is resolved.
    """
    images = platform.images
    if images is None or images.attestation is not Attestation.ENFORCE:
        return
    plan = resolve(platform)
    # serving stacks say which engines run
    left = engines(plan) if platform.layer is Layer.PLATFORM else set[str]()
    wanted = {repository_names()[each] for each in needed(plan) if each not in left}
    absent = sorted(wanted - set(images.digests))
    if absent:
        yield InputError(
            "images.digests",
            f"must have {', '.join(absent)} where attestation is enforce",
            None,
            ": `gke-inference images pin --stack` finds them",
        )
