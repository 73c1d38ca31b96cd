"""`models push`: from a folder or the hub to the buckets of a model's regions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gke_inference.catalogue.names import check_name as check_resource_name
from infra.stack import Task
from scripts.models.places import Place, Target
from scripts.models.progress import TransferBars, size_text
from scripts.models.session import Session, Storage, open_store, plain_errors
from scripts.shared.google_cloud import Cloud, CloudError
from scripts.terminal.console import CommandError, console
from scripts.terminal.where import Where
from twin.host.paths import REPOSITORY
from workloads.engine.weights_manifest import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    Manifest,
    check_version,
    version_of,
)
from workloads.transfer import hub
from workloads.transfer.errors import Refused, TransferError
from workloads.transfer.push import PART_BYTES, Sent, push
from workloads.transfer.source import HashCache, hash_files, scan, snapshot
from workloads.transfer.versions import Home, check_room, look, now, read_current, set_current
from workloads.transfer.work import Crew

_HASHES: Final = REPOSITORY / "build" / "models" / "hashes.json"


@dataclass(frozen=True)
class PushOptions:
    """Options of a push."""

    source: Path | None = None
    repository: str | None = None
    """On the hub."""
    revision: str | None = None
    token_secret: str | None = None
    version: str | None = None
    makes_current: bool = False
    exclude: tuple[str, ...] = ()
    is_direct: bool = False
    part_bytes: int = PART_BYTES
    is_dry_run: bool = False
    snapshot: str | None = None
    """Snapshot of a disk that a job in a cluster also fills."""
    zone: str | None = None
    """Zone of that disk."""

    def check_without_stack(self, *, in_cluster: bool) -> None:
        """Refuse what only a stack can provide: its project, regions and clusters.

        Raises:
            Refused: An option needs a stack.
        """
        for option, value in (
            ("--direct", self.is_direct),
            ("--in-cluster", in_cluster),
            ("--token-secret", self.token_secret),
        ):
            if value:
                raise Refused(f"{option}: must not be used with --to, which has no stack")

    def check(self, *, on_twin: bool, in_cluster: bool) -> None:
        """Check the combination of options.

        Raises:
            Refused: The options conflict.
        """
        if (self.source is None) == (self.repository is None):
            got = "neither" if self.source is None else "both"
            raise Refused(f"SOURCE: must be a folder, or --from-hub instead, got {got}")
        if self.repository is None:
            for option, value in (
                ("--revision", self.revision),
                ("--token-secret", self.token_secret),
            ):
                if value is not None:
                    raise Refused(f"{option}: must be used with --from-hub, got {value!r}")
        else:
            hub.check_repository(self.repository)
            hub.check_revision(self.revision or "main")
        if in_cluster and self.source is not None:
            rule = "must not be used with --in-cluster, which reads the hub"
            raise Refused(f"SOURCE: {rule}, got {str(self.source)!r}")
        self._check_disk(in_cluster=in_cluster)
        if on_twin and self.token_secret is not None:
            rule = f"must not be used with --on twin{'' if in_cluster else ': set HF_TOKEN'}"
            raise Refused(f"--token-secret: {rule}, got {self.token_secret!r}")
        if self.version is not None:
            try:
                check_version(self.version, "--version")
            except ValueError as error:
                raise Refused(str(error)) from None

    def _check_disk(self, *, in_cluster: bool) -> None:
        if self.is_direct and in_cluster:
            rule = "must not be used with --in-cluster, which copies between regions"
            raise Refused(f"--direct: {rule}, got true")
        if self.snapshot is not None and not in_cluster:
            rule = "must be used with --in-cluster"
            raise Refused(f"--snapshot: {rule}, got {self.snapshot!r}")
        if self.zone is not None and self.snapshot is None:
            raise Refused(f"--zone: must be used with --snapshot, got {self.zone!r}")
        if self.snapshot is None:
            return
        try:
            check_resource_name("compute", self.snapshot)
        except ValueError as error:
            raise Refused(f"--snapshot: {error}") from None


def push_version(session: Storage, target: Target, options: PushOptions) -> None:
    """Upload a version to every bucket of a model, and print the result.

    Raises:
        TransferError: The input is wrong, or a bucket cannot be written.
    """
    _check_stack_version(target, options)
    for home in target.homes:
        session.store.check_bucket(home.bucket)
    folder = _folder(session, options)
    files = scan(folder, options.exclude)
    if isinstance(session, Session) and target.is_adapter:
        model = session.plan.models[target.name.partition("/")[0]][0].settings
        check_adapter({file.name for file in files}, model.task)
    entries = tuple(hash_files(files, session.crew, session.progress, HashCache(_HASHES)))
    version = options.version or target.version or version_of(entries)
    manifest = Manifest(target.folder, version, now(), entries)
    label = f"{target.name}, version {version}"
    if options.is_dry_run:
        _print_plan(session, target, manifest)
        return
    sent = push(
        session.store,
        target.homes,
        files,
        manifest,
        session.crew,
        session.progress,
        part_bytes=options.part_bytes,
        is_direct=options.is_direct,
    )
    session.progress.say(result_line(label, manifest, sent))
    point(session, target.homes, version, makes_current=options.makes_current)


def check_adapter(names: set[str], task: Task) -> None:
    """Refuse files that no engine can load as an adapter.

    Raises:
        Refused: A file is missing.
    """
    if task.is_diffusion:  # the image server needs no configuration
        if not any(name.endswith(".safetensors") and "/" not in name for name in names):
            raise Refused("SOURCE: must have a .safetensors file, as an adapter for images does")
        return
    if ADAPTER_CONFIG not in names:
        raise Refused(f"SOURCE: must have {ADAPTER_CONFIG}, as an adapter does")
    if not names & {*ADAPTER_WEIGHTS}:
        raise Refused(f"SOURCE: must have {' or '.join(ADAPTER_WEIGHTS)}, as an adapter does")


def point(session: Storage, homes: Sequence[Home], version: str, *, makes_current: bool) -> None:
    """Make a version current where none is, or everywhere if requested; print the changes."""
    for home in homes:
        before = read_current(session.store, home)
        if before == version or (before is not None and not makes_current):
            if before != version:
                session.progress.say(
                    f"{home.uri}: version {before} stays current; --current makes {version} it"
                )
            continue
        set_current(session.store, home, version)
        session.progress.say(f"{home.uri}: version {version} is current")


def result_line(label: str, manifest: Manifest, sent: Sent) -> str:
    """Return the result of a push, in one line."""
    whole = f"{label}: {len(manifest.files)} files, {size_text(manifest.size)}"
    if not sent.buckets:
        return f"{whole}; nothing to do: every region has it"
    done = [f"sent {size_text(sent.sent)}"]
    if sent.copied:
        done.append(f"copied {size_text(sent.copied)} between regions")
    return f"{whole}; {', '.join(done)}; complete in {', '.join(sent.buckets)}"


def token_of(secret: str | None, cloud: Cloud | None) -> hub.Token | None:
    """Return the hub's token, from a secret or from the environment.

    Raises:
        TransferError: The secret cannot be read.
    """
    if secret is None or cloud is None:
        return hub.token_from_environment()
    name = f"projects/{cloud.project}/secrets/{secret}/versions/latest"
    try:
        answer = cloud.get(f"secretmanager.googleapis.com/v1/{name}:access")
        return hub.decode_token(answer["payload"]["data"])
    except CloudError as error:
        raise TransferError(f"--token-secret: {error}") from None
    except (KeyError, TypeError, ValueError):
        raise TransferError(f"--token-secret: {name} must hold a token as text") from None


def _check_stack_version(target: Target, options: PushOptions) -> None:
    """Refuse a version that the stack would never read, unless it becomes current."""
    if target.version is None or options.version in (None, target.version):
        return
    rule = f"must be {target.version} or unset: weights of {target.name} name this version"
    raise Refused(f"--version: {rule}, got {options.version!r}")


def _folder(session: Storage, options: PushOptions) -> Path:
    if options.source is not None:
        return snapshot(options.source)
    cloud = None
    if isinstance(session, Session) and options.token_secret is not None:
        cloud = _cloud(session.platform.project)
    token = token_of(options.token_secret, cloud)
    session.progress.say(f"fetching {options.repository} from the hub")
    return hub.download(
        str(options.repository), options.revision or "main", token, None, options.exclude
    )


def _print_plan(session: Storage, target: Target, manifest: Manifest) -> None:
    for home in target.homes:
        found = look(session.store, home, manifest.version)
        check_room(found, home, manifest)
        missing = found.missing(manifest.files)
        size = size_text(sum(file.size for file in missing))
        session.progress.say(
            f"{home.uri}/{manifest.version}: {len(missing)} of {len(manifest.files)} files to send,"
            f" {size}"
        )


def _cloud(project: str) -> Cloud:
    # Google's clients take a second to load, and most pushes do not need them.
    from scripts.shared import google_clients  # noqa: PLC0415

    try:
        return google_clients.connect(project)
    except CloudError as error:
        raise TransferError(str(error)) from None


_URI = re.compile(r"gs://([a-z0-9][-._a-z0-9]{1,61}[a-z0-9])/([^/@]+(?:/[^/@]+)*)")


def push_to(uri: str, options: PushOptions, where: Where, *, workers: int) -> None:
    """Upload a version to a folder, and make it current if none is.

    Args:
        uri: `gs://BUCKET/FOLDER`, as `weights` of a `ModelServer` without a version.
        options: Options of the push.
        where: Whose storage to use.
        workers: Number of parallel requests.

    Raises:
        CommandError: The folder is not valid, or a transfer failed.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise CommandError(f"--to: must be gs://BUCKET/FOLDER without a version, got {uri!r}")
    home = Home(match[1], match[2])
    target = Target(home.folder, None, (Place(home, ()),))
    with plain_errors(), TransferBars(console) as progress:
        opened = partial(open_store, None, on_twin=where.is_twin, workers=workers)
        push_version(Storage(opened, Crew(workers), progress), target, options)
