"""Rules about images: digests are of images there are, and to enforce attestation takes all."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from infra.plan import resolve
from infra.plan.image_names import needed, repository_names
from infra.stack import Attestation, Platform
from infra.stack.problems import join, one_of


def check_images(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the images of a platform."""
    images = platform.images
    if images is None:
        return
    known = sorted(set(repository_names().values()))
    for name in images.digests:
        if name not in known:
            yield one_of(join("images", "digests", name), name, known)


def check_attested(platform: Platform) -> Iterator[InputError]:
    """Yield the images that would not be admitted, where nothing else may run.

    Args:
        platform: A stack without any other fault, as it is resolved.
    """
    images = platform.images
    if images is None or images.attestation is not Attestation.ENFORCE:
        return
    wanted = {repository_names()[each] for each in needed(resolve(platform))}
    absent = sorted(wanted - set(images.digests))
    if absent:
        yield InputError(
            "images.digests",
            f"must have {', '.join(absent)} where attestation is enforce",
            None,
            ": `gke-inference images pin --stack` finds them",
        )
