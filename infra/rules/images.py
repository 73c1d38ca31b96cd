"""Rules about images: digests are of images there are, and to enforce attestation takes all."""

from collections.abc import Iterator

from infra.plan.image_names import needed, repository_names
from infra.stack import Attestation, Platform
from infra.stack.problems import Problem, join, one_of


def check_images(platform: Platform) -> Iterator[Problem]:
    """Yield what is wrong with the images of a platform."""
    images = platform.images
    if images is None:
        return
    known = sorted(set(repository_names().values()))
    for name in images.digests:
        if name not in known:
            yield Problem(join("images", "digests", name), one_of(name, known))
    if images.attestation is not Attestation.ENFORCE:
        return
    absent = sorted({repository_names()[each] for each in needed(platform)} - set(images.digests))
    if absent:
        yield Problem(
            "images.digests",
            f"must have {', '.join(absent)} where attestation is enforce, got none:"
            " `gke-inference images pin --stack` finds them",
        )
