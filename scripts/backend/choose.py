"""The backend of a stack: the twin, or its project in Google Cloud."""

from collections.abc import Generator
from contextlib import contextmanager

from scripts.backend.backend import Backend
from scripts.backend.cloud import CloudBackend
from scripts.backend.twin import TwinBackend
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError
from scripts.terminal.options import plan_of
from scripts.terminal.where import Where, say_where
from twin.host.paths import TwinPaths


def check_only_with_cloud(*, cloud: bool, stack: str, **others: object) -> None:
    """Check the options of a command for the whole twin or for one stack in Google Cloud.

    Args:
        cloud: Whether the command works in Google Cloud.
        stack: Name of the stack; empty if omitted.
        others: Values of options that need `--on cloud`; None or false if omitted.

    Raises:
        CommandError: `--stack` is missing with `--on cloud`, or an option was given without it.
    """
    if cloud and not stack:
        raise CommandError("--stack: is required with --on cloud")
    if not cloud:
        for name, value in {"stack": stack, **others}.items():
            if value:
                raise CommandError(f"--{name}: must be omitted without --on cloud")


@contextmanager
def open_backend(stack: str, *, cloud: bool) -> Generator[Backend]:
    """Open the backend of a stack, and turn refusals of Google into command errors.

    Args:
        stack: Name of the stack.
        cloud: Whether to use its project in Google Cloud instead of the twin.

    Raises:
        CommandError: As what runs inside; there are no credentials, or Google refuses.
    """
    if not cloud:
        say_where(Where.TWIN)
        yield TwinBackend(stack, TwinPaths.default())
        return
    plan = plan_of(stack)
    say_where(Where.CLOUD, plan.platform.project)
    # Google's clients take a second to load, and the twin needs none of them.
    from scripts.shared import google_clients  # noqa: PLC0415

    try:
        opened = google_clients.connect(plan.platform.project)
        with google_clients.plain_errors():
            yield CloudBackend(plan, stack, opened, lambda: google_clients.token_of(opened))
    except CloudError as error:
        raise CommandError(f"project {plan.platform.project}: {error}") from None
