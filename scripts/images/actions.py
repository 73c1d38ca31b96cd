"""The actions of `gke-inference images` on registries: list, pin, mirror."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from gke_inference.catalogue.problems import one_of
from gke_inference.catalogue.versions import Build, Image, builds, images, lock
from infra.plan.image_names import ImagesPlan, repository_names
from scripts.images.registry import Registry, RegistryError

Say = Callable[[str], None]
"""Prints a line."""


class ImagesError(Exception):
    """A request that cannot be fulfilled; one line."""


@dataclass(frozen=True)
class Row:
    """One image of a stack."""

    name: str
    reference: str
    is_pinned: bool
    release: str
    note: str

    @property
    def digest(self) -> str | None:
        """Digest that pins the image; None if there is only a tag."""
        return self.reference.partition("@")[2] or None


def rows(plan: ImagesPlan, region: str, only: Sequence[str] = ()) -> list[Row]:
    """Return the images that a stack runs in a region, with the remaining steps for each.

    Raises:
        ImagesError: The stack does not run an image that `only` names.
    """
    here, ours, engines = plan.regions[region], builds(), lock()["engines"]
    found: list[Row] = []
    for name in _asked(plan, only):
        image = images()[name]
        reference = here.replacements.get(image.reference, image.reference)
        release = str(engines[name]["version"]) if name in engines else ""
        is_own = image.reference in here.from_repository
        note = "from the repository" if is_own else _note(plan, reference, ours.get(name), image)
        found.append(Row(name, reference, "@sha256:" in reference, release, note))
    return found


def _note(plan: ImagesPlan, reference: str, build: Build | None, image: Image) -> str:
    if plan.settings is None:
        return "" if image.digest else "unpinned: images pin"
    if reference != image.reference:
        return "pulled through" if image.digest else "pulled through, unpinned: images pin"
    if build is None:
        return "images mirror" if image.digest else "images pin, then mirror"
    return f"{build.unpinned[0]}: images pin, then build" if build.unpinned else "images build"


def unpinned() -> dict[str, Image]:
    """Return the images and bases in the lock without a digest, by entry.

    Images that exist only in own registries are excluded.
    """
    found: dict[str, Image] = {}
    for section in ("bases", "images"):
        for name, body in lock()[section].items():
            image = Image(body["repository"], body["tag"])
            if not body["digest"] and not image.is_placeholder:
                found[f"{section}.{name}"] = image
    return found


def pin_lock(registry: Registry, only: list[str], say: Say) -> dict[str, tuple[str, str]]:
    """Return the digests that are missing in the lock; report and skip unreadable ones.

    Returns:
        (digest, source and date) by entry of the lock.

    Raises:
        ImagesError: The lock has no image or base that `only` names.
    """
    check_names(only, [name for section in ("bases", "images") for name in lock()[section]])
    made: dict[str, tuple[str, str]] = {}
    wanted = {entry: image for entry, image in unpinned().items() if _is_asked(entry, only)}
    for line in _left(only, wanted):
        say(line)
    for entry, image in wanted.items():
        try:
            digest = registry.digest(image.reference)
        except RegistryError as error:
            say(f"{entry}: {error}")
            continue
        made[entry] = (digest, f"registry of {image.repository}, {date.today().isoformat()}")
        say(f"{entry}: {image.reference}@{digest}")
    return made


def _is_asked(entry: str, only: Sequence[str]) -> bool:
    return not only or entry.partition(".")[2] in only


def _left(only: Sequence[str], wanted: Mapping[str, Image]) -> Iterator[str]:
    """Yield notes on skipped entries: those that `only` names, or all."""
    pinned: list[str] = []
    for section in ("bases", "images"):
        for name, body in lock()[section].items():
            entry = f"{section}.{name}"
            if entry in wanted or not _is_asked(entry, only):
                continue
            if not body["digest"]:
                yield f"{entry}: is only in our own registries: run images build, then pin --stack"
            elif only:
                yield f"{entry}: is already pinned to {body['digest']}"
            else:
                pinned.append(entry)
    if pinned and not wanted:
        yield f"nothing to do: {', '.join(pinned)} are pinned"


def pin_stack(
    registry: Registry, plan: ImagesPlan, revision: str, only: list[str], say: Say
) -> dict[str, str]:
    """Return the digests of the stack's images in its repository.

    Own images have the tag RELEASE-REVISION from their build, other images the tag in the lock. A
    digest must be the same in every region; otherwise a mirror or build is incomplete.

    Raises:
        ImagesError: The stack has no repository.
    """
    url = _urls(plan)
    ours, names, made = builds(), repository_names(), dict[str, str]()
    for name in _asked(plan, only):
        build = ours.get(name)
        tag = images()[name].tag if build is None else f"{build.version}-{revision}"
        found: dict[str, str] = {}
        for region, repository in url.items():
            try:
                found[region] = registry.digest(f"{repository}/{names[name]}:{tag}")
            except RegistryError as error:
                say(f"{names[name]}: {error}")
        if len(set(found.values())) > 1 or len(found) < len(url):
            say(f"{names[name]}: unchanged: must be the same image in {', '.join(url)}")
            continue
        made[names[name]] = next(iter(found.values()))
        say(f"{names[name]}: {made[names[name]]}")
    return made


def mirrored(plan: ImagesPlan, only: list[str]) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield the copies of a mirror: target name, digest, source, and a target for each region.

    Raises:
        ImagesError: The stack has no repository, or an image has no digest.
    """
    url, names = _urls(plan), repository_names()
    for name in _asked(plan, only):
        if name in builds():
            continue
        image = images()[name]
        if not image.digest:
            raise ImagesError(
                f"images.{name}: must have a digest in versions.yaml, got {image.reference};"
                " run `gke-inference images pin`"
            )
        source = f"{image.repository}@{image.digest}"
        targets = [f"{each}/{names[name]}:{image.tag}" for each in url.values()]
        yield names[name], image.digest, source, targets


def mirror(
    registry: Registry, plan: ImagesPlan, only: list[str], say: Say, *, dry_run: bool
) -> dict[str, str]:
    """Copy the third-party images of a stack to its repository, by digest.

    Returns:
        The digests by name in the repository.

    Raises:
        ImagesError: As `mirrored`.
        RegistryError: A copy failed, or arrived with another digest.
    """
    made: dict[str, str] = {}
    for name, digest, source, targets in list(mirrored(plan, only)):
        for target in targets:
            say(f"{source} -> {target}")
            if dry_run:
                continue
            registry.copy(source, target)
            arrived = registry.digest(target)
            if arrived != digest:
                raise RegistryError(f"{target}: must have digest {digest}, got {arrived}")
        made[name] = digest
    return made


def _urls(plan: ImagesPlan) -> dict[str, str]:
    if plan.settings is None:
        raise ImagesError(
            "images: is required in the stack (images.repository: name of the repository)"
        )
    urls = {name: region.repository for name, region in plan.regions.items()}
    return {name: url for name, url in urls.items() if url is not None}


def _asked(plan: ImagesPlan, only: Sequence[str]) -> list[str]:
    check_names(only, plan.needed)
    return [name for name in plan.needed if not only or name in only]


def check_names(only: Sequence[str], known: Sequence[str]) -> None:
    """Check that the names are known.

    Raises:
        ImagesError: A name is unknown; the message lists the known ones and the nearest.
    """
    for name in only:
        if name not in known:
            raise ImagesError(str(one_of("--only", name, known)))
