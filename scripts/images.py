"""`gke-inference images`: what a stack runs, pinned, mirrored and built."""

import subprocess
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer
import yaml

from infra.stack import Platform
from scripts import images_actions, images_build, images_files, images_list, images_lock
from scripts.console import CommandError, console
from scripts.google_cloud import Cloud, CloudError
from scripts.images_registry import Registry, RegistryError
from scripts.words import stack_of
from twin.host.paths import REPOSITORY


class Action(StrEnum):
    """What to do with images."""

    LIST = "list"
    PIN = "pin"
    MIRROR = "mirror"
    BUILD = "build"
    LOCK = "lock"


_GOES_WITH: Mapping[str, tuple[Action, ...]] = {
    "--json": (Action.LIST,),
    "--local": (Action.BUILD,),
    "--revision": (Action.BUILD, Action.PIN),
    "--sizes": (Action.LIST,),
    "--stack": (Action.LIST, Action.PIN, Action.MIRROR, Action.BUILD),
    "--upgrade": (Action.LOCK,),
}
"""The actions that look at an option."""


def images(
    action: Annotated[
        Action,
        typer.Argument(
            help="list what a stack runs; pin digests in the lock of versions, or with --stack in"
            " the stack; mirror into its repository; build ours; lock the packages of ours."
        ),
    ],
    stack: Annotated[
        str | None, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this image, such as vllm_tpu; more than once.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="build, pin: commit of our images. Default: the checkout's.")
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="list: ask registries what a node pulls.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="build: with Docker on this machine.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="lock: the newest versions that fit.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="list: all of it as JSON.")] = False,
) -> None:
    """List, pin, mirror and build the container images of a stack."""
    chosen = list(only or [])
    given = {
        "--stack": stack, "--revision": revision, "--sizes": sizes, "--local": local,
        "--upgrade": upgrade, "--json": as_json,
    }  # fmt: skip
    _check_options(action, given)
    if revision == "":
        raise CommandError("--revision: must be a commit, got ''")
    try:
        if action is Action.LOCK:
            _lock(chosen, dry_run=dry_run, upgrade=upgrade)
        elif action is Action.PIN and stack is None:
            _pin(chosen, dry_run=dry_run)
        elif stack is None:
            raise CommandError(f"--stack: is required for images {action.value}")
        elif action is Action.LIST:
            _list(stack_of(stack), chosen, sizes=sizes, as_json=as_json)
        elif action is Action.BUILD:
            _build(stack_of(stack), chosen, revision or _commit(), local=local, dry_run=dry_run)
        else:
            _fill(action, stack, chosen, revision or _commit(), dry_run=dry_run)
    except (
        CloudError,
        RegistryError,
        images_actions.ImagesError,
        images_lock.LockError,
    ) as error:
        raise CommandError(str(error)) from None


def _check_options(action: Action, given: Mapping[str, object]) -> None:
    """Refuse an option that an action would not look at."""
    for option, value in given.items():
        if value and action not in _GOES_WITH[option]:
            actions = ", ".join(_GOES_WITH[option])
            raise CommandError(f"{option}: must be left out for {action.value}: it is of {actions}")


def _say(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


def _commit() -> str:
    argv = ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise CommandError("this is no checkout of git: say --revision")
    return answer.stdout.strip()


def _list(platform: Platform, only: list[str], *, sizes: bool, as_json: bool) -> None:
    region = next(iter(platform.regions))
    rows = images_actions.rows(platform, region, only)
    found = images_list.sizes_of(rows, Registry()) if sizes else None
    if as_json:
        print(images_list.as_json(rows, found))
    else:
        images_list.print_list(rows, found)


def _pin(only: list[str], *, dry_run: bool) -> None:
    made = images_actions.pin_lock(Registry(), only, _say)
    if made and not dry_run:
        images_files.write_lock(made)
    asked = [entry for entry in images_actions.unpinned() if entry.partition(".")[2] in only]
    missing = len(asked if only else images_actions.unpinned()) - len(made)
    if missing > 0:
        raise CommandError(f"{missing} digests could not be read")


def _fill(action: Action, stack: str, only: list[str], revision: str, *, dry_run: bool) -> None:
    platform, registry = stack_of(stack), Registry()
    if action is Action.MIRROR:
        made = images_actions.mirror(registry, platform, only, _say, dry_run=dry_run)
    else:
        made = images_actions.pin_stack(registry, platform, revision, only, _say)
    if made and not dry_run:
        file = images_files.write_stack(stack, made)
        _say(f"{len(made)} digests written to {file.relative_to(REPOSITORY)}")


def _build(
    platform: Platform, only: list[str], revision: str, *, local: bool, dry_run: bool
) -> None:
    for target in images_build.targets(platform, only, revision):
        if dry_run:
            plan = images_build.show(platform, target, local=local)
            _say(yaml.safe_dump({target.build.folder: plan}, sort_keys=False, width=1000))
        elif local:
            images_build.run_local(target)
        else:
            images_build.run_trigger(_cloud(platform.project), platform, target, _say)


def _cloud(project: str) -> Cloud:
    # Google's clients take a second to load, and most actions need none.
    from scripts import google_clients  # noqa: PLC0415

    return google_clients.connect(project)


def _lock(only: list[str], *, dry_run: bool, upgrade: bool) -> None:
    folders = images_lock.images_with_locks()
    images_actions.check_names(only, sorted(folders))
    wanted = {folders[name] for name in only} if only else None
    changed = images_lock.refresh(check=dry_run, upgrade=upgrade, only=wanted)
    for name in changed:
        _say(f"workloads/images/{name}/requirements.lock")
    if dry_run and changed:
        raise CommandError(f"{len(changed)} locks are out of date: gke-inference images lock")
    if not changed:
        _say(f"up to date: {', '.join(sorted(only or folders))}")
