"""The actions of `models` other than push: pull, list, verify, replicate, remove."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from infra.plan import resolve
from infra.reading.load import stack_names
from scripts.models.places import Place, Target, used_versions
from scripts.models.progress import size_text
from scripts.models.session import Session
from scripts.models.uploads import point
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import check_words, stack_of
from workloads.engine.weights_manifest import Manifest
from workloads.transfer import remove
from workloads.transfer.errors import Refused
from workloads.transfer.listing import VersionState, versions
from workloads.transfer.pull import pull
from workloads.transfer.push import copy
from workloads.transfer.verify import verify
from workloads.transfer.versions import Found, Home, finish, look, read_current


@dataclass(frozen=True)
class Row:
    """A version of a model in a bucket; None if the bucket has no version."""

    model: str
    place: Place
    state: VersionState | None
    is_used: bool
    """Whether the stack reads it."""


def chosen(session: Session, names: Sequence[str] | None) -> list[Target]:
    """Return the named models, or all.

    Raises:
        CommandError: The stack has no such model.
    """
    known = session.targets
    return [known[name] for name in check_words("--model", names, known) or tuple(known)]


def rows(session: Session, names: Sequence[Target]) -> list[Row]:
    """Return the versions of models in every bucket.

    Raises:
        TransferError: A bucket cannot be read.
    """
    found: list[Row] = []
    for target in names:
        for place in target.places:
            states = versions(session.store, place.home)
            for state in states:
                is_used = (
                    state.is_current if target.version is None else state.version == target.version
                )
                found.append(Row(target.name, place, state, is_used))
            if not states:
                found.append(Row(target.name, place, None, is_used=False))
    return found


def version_used(session: Session, target: Target, home: Home) -> str:
    """Return the version of a model that a region reads.

    Raises:
        Refused: The stack names no version, and none is current.
    """
    used = target.version or read_current(session.store, home)
    if used is None:
        rule = f"is required: {home.uri} has no current version"
        raise Refused(f"--version: {rule}; `gke-inference models list` shows what it has")
    return used


def pull_version(
    session: Session, target: Target, version: str | None, region: str | None, folder: Path
) -> None:
    """Download a version to a folder.

    Raises:
        TransferError: No region has it, or it cannot be read.
    """
    places = target.places if region is None else (target.place_of(region),)
    home, manifest = _complete(session, target, version, [place.home for place in places])
    received = pull(session.store, home, manifest, folder, session.crew, session.progress)
    session.progress.say(
        f"{target.name}, version {manifest.version}: {len(manifest.files)} files, "
        f"{size_text(manifest.size)} in {folder}; received {size_text(received)}"
    )


def verify_versions(
    session: Session, names: Sequence[Target], version: str | None, *, is_deep: bool
) -> list[str]:
    """Return the problems of the versions that a stack uses, in every region.

    Raises:
        TransferError: A bucket cannot be read.
    """
    wrong: list[str] = []
    for target in names:
        for home in target.homes:
            used = version or target.version or read_current(session.store, home)
            if used is None:
                wrong.append(f"{home.uri}: has no current version")
                continue
            lines = verify(
                session.store, home, used, session.crew, session.progress, is_deep=is_deep
            )
            wrong += lines
            if not lines:
                how = "every byte was read" if is_deep else "sizes and checksums agree"
                session.progress.say(f"{home.uri}/{used}: {how}")
    return wrong


def replicate_version(
    session: Session,
    target: Target,
    version: str | None,
    source: str | None,
    to: Sequence[str],
    *,
    makes_current: bool,
) -> None:
    """Copy a version to other regions of a model.

    Raises:
        TransferError: No region has it, or a region has another version with the same name.
    """
    origins = target.homes if source is None else [target.place_of(source, "--from").home]
    goals = [target.place_of(region, "--to").home for region in to] or target.homes
    origin, manifest = _complete(session, target, version, origins)
    goals = [home for home in dict.fromkeys(goals) if home != origin]
    if not goals:
        raise Refused(f"--to: must be a region with another bucket than {origin.bucket}, got none")
    for home in goals:
        session.store.check_bucket(home.bucket)
    for home in goals:
        copied = copy(session.store, origin, home, manifest, session.crew, session.progress)
        finish(session.store, home, manifest)
        session.progress.say(
            f"{home.uri}/{manifest.version}: complete, copied {size_text(copied)}"
            f" from gs://{origin.bucket}"
        )
    point(session, goals, manifest.version, makes_current=makes_current)


def remove_version(
    session: Session, target: Target, version: str, *, is_forced: bool, ask: bool
) -> None:
    """Remove a version from every region of a model.

    Raises:
        Refused: A stack uses it, or it is current; nothing was removed.
        TransferError: It could not be removed.
    """
    if not is_forced:
        _check_unused(session, target, version)
    counts = {home: len(remove.contents(session.store, home, version)) for home in target.homes}
    for home, count in counts.items():
        console.print(f"{home.uri}/{version}: {count} objects", markup=False, soft_wrap=True)
    if not any(counts.values()):
        return
    if ask and not typer.confirm("Remove them?"):
        console.print("Nothing was changed.")
        return
    for home, count in counts.items():
        if count:
            removed = remove.remove(session.store, home, version, session.crew)
            session.progress.say(f"{home.uri}/{version}: removed {removed} objects")


def _check_unused(session: Session, target: Target, version: str) -> None:
    used = used_versions({name: resolve(stack_of(name)) for name in stack_names()})
    for home in target.homes:
        users = used.get((home, version))
        if users:
            raise Refused(f"--version: must not be in use, got {version!r} of {', '.join(users)}")
        if read_current(session.store, home) == version:
            rule = "must not be the current version; --force removes it anyway"
            raise Refused(f"--version: {rule}, got {version!r} of {home.uri}")


def _complete(
    session: Session, target: Target, version: str | None, homes: Sequence[Home]
) -> tuple[Home, Manifest]:
    """Return the first bucket with a complete version, and its manifest.

    Raises:
        Refused: None has it.
    """
    seen: dict[Home, tuple[str, Found]] = {}
    for home in homes:
        wanted = version or target.version or read_current(session.store, home)
        if wanted is None:
            continue
        found = look(session.store, home, wanted)
        if found.is_complete and found.manifest is not None:
            return home, found.manifest
        seen[home] = (wanted, found)
    if not seen:
        version_used(session, target, homes[0])
    states = [
        f"{home.uri}/{wanted} {'is half-uploaded' if found.objects else 'does not exist'}"
        for home, (wanted, found) in seen.items()
    ]
    raise CommandError(f"--version: must be complete in a region: {'; '.join(states)}")
