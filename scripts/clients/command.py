"""`gke-inference clients`: make, list, rotate and revoke the keys of teams."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from infra.plan.clients import gated
from infra.stack import Platform
from scripts.backend.choose import CloudOption
from scripts.clients import keys as documents
from scripts.clients.keys import Key, KeyProblem
from scripts.clients.reach import open_secret
from scripts.clients.secret import KeySecret
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError, console, errors
from scripts.terminal.options import JsonOption, StackOption, check_one, stack_of
from scripts.terminal.tables import Listing, print_table

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="ID of the key, as `list` shows it.")]

clients = typer.Typer()
keys = typer.Typer()
clients.add_typer(keys, name="keys")


@clients.callback()
def clients_group() -> None:
    """Manage the teams that call a stack's models."""


@keys.callback()
def keys_group() -> None:
    """Create, list, rotate and revoke the keys of teams.

    A gateway knows of a change within five seconds.
    """


@keys.command()
def create(
    team: Annotated[str, typer.Argument(help="Team of the stack's `clients`.")],
    stack: StackOption = "local",
    expires: Annotated[
        str | None, typer.Option(help="Lifetime, such as 90d or 12h. Default: until revoked.")
    ] = None,
    cloud: CloudOption = False,
) -> None:
    """Create a key of a team and print it. It is not stored anywhere and not printed again."""
    with _secret(stack, cloud=cloud) as (secret, platform):
        known = platform.clients.teams if platform.clients is not None else {}
        check_one("TEAM", team, known)
        now = documents.utc_now()
        lifetime = None if expires is None else documents.lifetime_of("--expires", expires)
        key, text = documents.make(team, now, lifetime)
        secret.change(lambda before: documents.added(before, key, now))
    _show(key, text)


@keys.command("list")
def list_keys(
    stack: StackOption = "local", cloud: CloudOption = False, is_json: JsonOption = False
) -> None:
    """List the keys: ID, team and dates."""
    with _secret(stack, cloud=cloud) as (secret, _):
        _, found = secret.read()
    now = documents.utc_now()
    if is_json:
        shown = [{**asdict(key), "valid": key.is_valid(now)} for key in found]
        print(json.dumps([{k: v for k, v in one.items() if k != "sha256"} for one in shown]))
        return
    table = Listing("ID", "TEAM", "STATE", "CREATED", "EXPIRES")
    for key in sorted(found, key=lambda each: (each.team, each.created)):
        state = "valid" if key.is_valid(now) else "expired"
        table.add_row(key.id, key.team, state, key.created, key.expires or "never")
    print_table(table)


@keys.command()
def rotate(
    name: IdArgument,
    stack: StackOption = "local",
    overlap: Annotated[
        str, typer.Option(help="How long the old key stays valid, such as 7d.")
    ] = "7d",
    expires: Annotated[
        str | None, typer.Option(help="Lifetime of the new key. Default: until revoked.")
    ] = None,
    cloud: CloudOption = False,
) -> None:
    """Create a key that replaces another one, which stays valid for a while."""
    with _secret(stack, cloud=cloud) as (secret, _):
        now = documents.utc_now()
        ends = now + documents.lifetime_of("--overlap", overlap)
        lifetime = None if expires is None else documents.lifetime_of("--expires", expires)
        _, before = secret.read()
        key, text = documents.make(documents.of_id(before, name).team, now, lifetime)

        def change(found: list[Key]) -> list[Key]:
            return documents.added(documents.expiring(found, name, ends), key, now)

        secret.change(change)
    _show(key, text)
    console.print(f"{name} is valid until {_time(ends)}")


@keys.command()
def revoke(name: IdArgument, stack: StackOption = "local", cloud: CloudOption = False) -> None:
    """Revoke a key: requests with it get 401 within five seconds."""
    with _secret(stack, cloud=cloud) as (secret, _):
        now = documents.utc_now()
        secret.change(lambda found: documents.revoked(found, name, now))
    console.print(f"{name} is revoked")


@contextmanager
def _secret(stack: str, *, cloud: bool) -> Generator[tuple[KeySecret, Platform]]:
    """Open the secret of a stack's keys.

    Raises:
        CommandError: The stack has no teams, or the secret cannot be reached.
    """
    platform = stack_of(stack)
    if gated(platform) is None:
        raise CommandError(
            f"--stack: must be a stack with 'clients.teams', got {stack!r}: it has no keys"
        )
    try:
        with open_secret(stack, platform, cloud=cloud) as secret:
            yield secret, platform
    except (CloudError, KeyProblem) as error:
        raise CommandError(str(error)) from None


def _show(key: Key, text: str) -> None:
    errors.print(f"Key of {key.team}, valid until {key.expires or 'it is revoked'}:")
    print(text)  # alone on standard output, for a pipe


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
