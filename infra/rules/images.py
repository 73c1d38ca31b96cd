"""Rules about images: digests are for known images, and enforced attestation needs all digests."""

from collections.abc import Iterator

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.versions import image as lock_image
from gke_inference.catalogue.versions import remote_repository, third_party_registries
from infra.plan import Plan
from infra.plan.image_names import ImagesPlan, repository_names
from infra.stack import Attestation, Images, Platform, Spanning
from infra.stack.images import PullThrough

_BY_TAG = ("dev", "local")
"""Environments whose engines may run by tag without a reason."""
_FIRST = (
    "; `gke-inference images prepare` builds our own, `gke-inference images mirror` copies the"
    " others, and both add the digests"
)

_RAY = (Spanning.RAY, Spanning.KUBERAY)


def check_images(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's images."""
    images = platform.images
    if images is None:
        return
    repositories = sorted(set(repository_names().values()))
    for name in images.digests:
        if name not in repositories:
            yield one_of(join("images", "digests", name), name, repositories)
    if images.pull_through is not None:
        yield from _check_pull_through(images, images.pull_through)
    if images.is_attested and images.build is not None and images.build.source is None:
        rule = "must be set when images.attestation is not none, as only triggers attest images"
        yield InputError("images.build.source", rule)


def _check_pull_through(images: Images, settings: PullThrough) -> Iterator[InputError]:
    """Yield credentials of registries that no image is pulled from, and a name that is taken."""
    registries = third_party_registries()
    for registry in images.upstream_credentials:
        if registry not in registries:
            yield one_of(
                join("images", "pull_through", "credentials", registry), registry, registries
            )
    if images.repository in {remote_repository(settings.name, each) for each in registries}:
        rule = (
            f"must not result in the repository name {images.repository}, which images.repository"
            " uses"
        )
        yield InputError("images.pull_through.name", rule, settings.name)


def check_pinned(plan: Plan) -> Iterator[InputError]:
    """Yield engines and other programs of ours that run by tag without a stated reason.

    A tag can be moved, which changes what is served. A development stack may accept that.

    Args:
        plan: A resolved stack without other problems.
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
        for each in _ours(plan.images)
        if not lock_image(each).digest and names[each] not in digests
    )
    if absent:
        yield InputError(
            "images.digests",
            f"must have {', '.join(absent)} when environment is not {' or '.join(_BY_TAG)}",
            None,
            f"{_FIRST}; to run images by tag until then, give a reason in 'unpinned_images'",
        )


def check_ray(plan: Plan) -> Iterator[InputError]:
    """Yield models that span GPU nodes with Ray in an image that has none.

    The upstream image has no Ray (kubernetes-sigs/lws#835), and ours has it.

    Args:
        plan: A resolved stack without other problems.
    """
    images = plan.platform.images
    digests = {} if images is None else images.digests
    for name, every in plan.models.items():
        settings = every[0].settings
        rungs = [rung for role in every[0].roles for rung in role.capacity.settings.rungs]
        spanning = settings.spanning
        if spanning is None or spanning not in _RAY or all(rung.is_tpu for rung in rungs):
            continue
        entry = engine(settings.engine).hardware["gpu"].image
        own = repository_names()[entry]
        if own not in digests:
            yield InputError(
                join("models", name, "spanning"),
                f"must be engine on GPU unless images.digests has {own}",
                spanning.value,
                f": {lock_image(entry).repository} has had no Ray since v0.19, and only the"
                " image that this repository builds has it",
            )


def check_arm(plan: Plan) -> Iterator[InputError]:
    """Yield Arm rungs of models whose engine image comes from the stack's own repository.

    `images prepare` builds, and `images mirror` copies, images of x86 alone.

    Args:
        plan: A resolved stack without other problems.
    """
    images = plan.platform.images
    digests = {} if images is None else images.digests
    for every in plan.models.values():
        facts = engine(every[0].settings.engine)
        for at, rung in every[0].rungs.items():
            if not rung.is_arm:
                continue
            own = repository_names()[facts.hardware[rung.kind].image]
            if own in digests:
                yield InputError(
                    join("capacity", every[0].capacity.name, "rungs", at, "machine_type"),
                    f"must be of an x86 family while images.digests has {own}, an image of x86",
                    rung.machine_type,
                )


def _ours(images: ImagesPlan) -> frozenset[str]:
    """Return the engine images that a stack runs, and the images that only our builds create.

    For a platform stack, engines are not included: serving stacks determine which of them run.
    """
    left = images.engines if images.are_engines_decided else frozenset[str]()
    return left | {each for each in images.decided if lock_image(each).is_placeholder}


def check_attested(plan: ImagesPlan) -> Iterator[InputError]:
    """Yield images that would not be admitted if attestation is enforced.

    Args:
        plan: Images of a stack without other problems.
    """
    images = plan.settings
    if images is None or images.attestation is not Attestation.ENFORCE:
        return
    wanted = {repository_names()[each] for each in plan.decided}
    absent = sorted(wanted - set(images.digests))
    if absent:
        yield InputError(
            "images.digests",
            f"must have {', '.join(absent)} when attestation is enforce",
            None,
            _FIRST,
        )
