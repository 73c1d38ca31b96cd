"""`gke-inference images`: the container images of a stack, pinned, mirrored and built."""

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer
import yaml

from infra.plan import Plan, resolve
from infra.plan.project import ProjectPlan
from scripts.images import actions as images_actions
from scripts.images import bootstrap as images_bootstrap
from scripts.images import build as images_build
from scripts.images import files as images_files
from scripts.images import listing as images_list
from scripts.images import lock as images_lock
from scripts.images import prepare as images_prepare
from scripts.images.registry import Registry, RegistryError
from scripts.shared.engine import Engine
from scripts.shared.google_cloud import Cloud, CloudError
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import STACK_HELP, StackOption, stack_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.where import OnOption, Where, say_where
from twin.host.paths import REPOSITORY, TwinPaths
from workloads.transfer.errors import TransferError

OnlyOption = Annotated[
    list[str] | None,
    typer.Option(help="Only this image, such as vllm_tpu; repeat for more. Default: all."),
]
RevisionOption = Annotated[
    str | None, typer.Option(help="Commit of our images. Default: the commit of this checkout.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]

YesOption = Annotated[bool, typer.Option("--yes", help="Make the changes without asking.")]
LocalOption = Annotated[bool, typer.Option("--local", help="Build with Docker on this machine.")]

images = typer.Typer()


@images.callback()
def images_group() -> None:
    """List, pin, mirror and build the container images of a stack."""


@images.command("list")
def list_images(
    stack: StackOption,
    only: OnlyOption = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Show the size that a node pulls, from the registries.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the images of a stack: release, digest, and what is left to do."""
    plan = _plan_of(stack)
    with _plain_errors():
        rows = images_actions.rows(plan.images, next(iter(plan.regions)), list(only or []))
        found = images_list.sizes_of(rows, Registry()) if sizes else None
    if output.is_data:
        print_data(images_list.as_data(rows, found), output)
    else:
        images_list.print_list(rows, found)


@images.command()
def pin(
    stack: Annotated[
        str | None, typer.Option(help=f"{STACK_HELP} Default: pin the lock of versions.")
    ] = None,
    only: OnlyOption = None,
    revision: RevisionOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Read digests from registries, and write them to versions.yaml or to a stack."""
    with _plain_errors():
        if stack is None:
            if revision is not None:
                raise CommandError("--revision: must be omitted without --stack")
            _pin_lock(list(only or []), dry_run=dry_run)
            return
        plan, commit = _plan_of(stack), _commit(revision)
        digests = images_actions.pin_stack(
            Registry(), plan.images, commit, list(only or []), _print_line
        )
        _write_digests(stack, digests, dry_run=dry_run)


@images.command()
def mirror(stack: StackOption, only: OnlyOption = None, dry_run: DryRunOption = False) -> None:
    """Copy third-party images to the stack's repositories by digest, and pin them in the stack."""
    with _plain_errors():
        digests = images_actions.mirror(
            Registry(),
            _plan_of(stack).images,
            list(only or []),
            _print_line,
            dry_run=dry_run,
        )
        _write_digests(stack, digests, dry_run=dry_run)


@images.command()
def build(
    stack: StackOption,
    only: OnlyOption = None,
    revision: RevisionOption = None,
    local: LocalOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Build our own images, in Cloud Build or on this machine."""
    with _plain_errors():
        plan, commit, cloud = _plan_of(stack), _commit(revision), None
        targets = images_build.targets(plan.images, list(only or []), commit)
        if not dry_run and not local and images_build.is_from_checkout(plan.images):
            _check_committed(revision)
            images_build.upload(plan.images, commit, _objects(plan.project.id, on_twin=False))
        for target in targets:
            if dry_run:
                steps = images_build.show(plan.images, target, local=local)
                text = yaml.safe_dump({target.build.target: steps}, sort_keys=False, width=1000)
                _print_line(text)
            elif local:
                images_build.run_local(target)
            else:
                cloud = cloud or _cloud(plan.project.id)
                images_build.start(cloud, plan.images, target, _print_line)


@images.command("prepare")
def prepare_images(
    stack: StackOption,
    yes: YesOption = False,
    on: OnOption = Where.TWIN,
    local: LocalOption = False,
    revision: RevisionOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Build the images that a stack needs before its first `up`, and pin them in the stack.

    Runs `images bootstrap`, `build` and `pin` for the images that have no digest, and waits for the
    builds. On the twin, the stack file stays as it is.
    """
    with _plain_errors():
        plan, commit = _plan_of(stack), _commit(revision)
        absent = images_prepare.check(plan.images, is_local=local)
        say_where(on, plan.project.id)
        if dry_run:
            targets = images_bootstrap.deployed_targets(
                _pulumi(stack, on_twin=on.is_twin), plan, stack
            )
            shown = images_bootstrap.shown(stack, yes=yes, targets=targets)
            for line in (*shown, *images_bootstrap.next_steps(plan.images, stack, absent)):
                _print_line(line)
            return
        if not absent:
            _print_line(next(images_bootstrap.next_steps(plan.images, stack, absent)))
            return
        _check_committed(revision)
        digests = images_prepare.prepare(
            _place(stack, plan.project, on_twin=on.is_twin),
            stack,
            plan,
            absent,
            commit,
            _print_line,
            yes=yes,
            is_local=local,
        )
        if on.is_twin:
            _print_line(
                f"The twin has {', '.join(digests)}: run `gke-inference up --stack {stack}`."
            )
        else:
            _write_digests(stack, digests, dry_run=False)


@images.command("bootstrap")
def bootstrap_images(
    stack: StackOption,
    yes: YesOption = False,
    on: OnOption = Where.TWIN,
    dry_run: DryRunOption = False,
) -> None:
    """Create the repository and build triggers of a stack, before its first `up`."""
    with _plain_errors():
        plan = _plan_of(stack)
        absent = images_bootstrap.check(plan.images)
        say_where(on, plan.project.id)
        cli = _pulumi(stack, on_twin=on.is_twin)
        if dry_run:
            targets = images_bootstrap.deployed_targets(cli, plan, stack)
            for line in images_bootstrap.shown(stack, yes=yes, targets=targets):
                _print_line(line)
            return
        images_bootstrap.create(cli, plan, stack, yes=yes)
        for line in images_bootstrap.next_steps(plan.images, stack, absent):
            _print_line(line)


@images.command()
def lock(
    only: OnlyOption = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Use the newest versions that fit.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; exit 1 if a lock is out of date.")
    ] = False,
) -> None:
    """Resolve the package locks of our own images."""
    with _plain_errors():
        folders = images_lock.images_with_locks()
        images_actions.check_names(list(only or []), sorted(folders))
        wanted = {folders[name] for name in only} if only else None
        changed = images_lock.refresh(check=dry_run, upgrade=upgrade, only=wanted)
    for name in changed:
        _print_line(str(images_lock.locks()[name].locked.relative_to(REPOSITORY)))
    if dry_run and changed:
        _print_line(f"{len(changed)} locks are out of date: run gke-inference images lock")
        raise typer.Exit(ExitCode.CHECK_FAILED)
    if not changed:
        _print_line(f"up to date: {', '.join(sorted(only or folders))}")


@contextmanager
def _plain_errors() -> Generator[None]:
    """Turn errors of other modules into command errors."""
    try:
        yield
    except (
        CloudError,
        RegistryError,
        TransferError,
        images_actions.ImagesError,
        images_lock.LockError,
    ) as error:
        raise CommandError(str(error)) from None


def _plan_of(stack: str) -> Plan:
    """Return a stack, whose images may have no digest yet."""
    return resolve(stack_of(stack, with_digests=False))


def _print_line(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


def _commit(revision: str | None) -> str:
    """Return the commit for own images."""
    if revision == "":
        raise CommandError("--revision: must be a commit, got ''")
    if revision is not None:
        return revision
    argv = ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise CommandError("--revision: is required outside a git checkout")
    return answer.stdout.strip()


def _pin_lock(only: list[str], *, dry_run: bool) -> None:
    digests = images_actions.pin_lock(Registry(), only, _print_line)
    if digests and not dry_run:
        images_files.write_lock(digests)
    asked = [entry for entry in images_actions.unpinned() if entry.partition(".")[2] in only]
    missing = len(asked if only else images_actions.unpinned()) - len(digests)
    if missing > 0:
        raise CommandError(f"{missing} digests could not be read; see above")


def _write_digests(stack: str, digests: dict[str, str], *, dry_run: bool) -> None:
    if digests and not dry_run:
        file = images_files.write_stack(stack, digests)
        _print_line(f"wrote {len(digests)} digests to {file.relative_to(REPOSITORY)}")


def _pulumi(stack: str, *, on_twin: bool) -> PulumiCli:
    if not on_twin:
        return PulumiCli({})
    engine = Engine(TwinPaths.default())
    engine.ensure_stack(stack)
    return engine


def _check_committed(revision: str | None) -> None:
    if revision is None:
        images_prepare.check_committed()


def _place(stack: str, project: ProjectPlan, *, on_twin: bool) -> images_prepare.Place:
    """Return the project of a stack, in Google Cloud or on the twin."""
    cloud: Callable[[], Cloud] = partial(_cloud, project.id)
    registry = Registry()
    if on_twin:
        # the twin's modules take a while to load, and a real project does not need them
        from scripts.backend.twin_cloud import twin_cloud  # noqa: PLC0415
        from scripts.images.registry import TwinRegistry  # noqa: PLC0415

        paths = TwinPaths.default()
        cloud = partial(twin_cloud, project.id, int(project.number), paths)
        registry = TwinRegistry(paths)
    return images_prepare.Place(
        partial(_pulumi, stack, on_twin=on_twin),
        cloud,
        registry,
        partial(_objects, project.id, on_twin=on_twin),
    )


def _objects(project: str, *, on_twin: bool) -> images_build.Objects:
    """Return the object storage of a project."""
    # Google's client takes a second to load, and most commands do not need it.
    from scripts.models.session import open_store  # noqa: PLC0415

    return open_store(project, on_twin=on_twin, workers=1)


def _cloud(project: str) -> Cloud:
    # Google's clients take a second to load, and most commands do not need them.
    from scripts.shared import google_clients  # noqa: PLC0415

    return google_clients.connect(project)
