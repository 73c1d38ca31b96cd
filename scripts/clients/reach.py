"""Access to the secret with a stack's keys, in Google's Secret Manager or in the twin's."""

from collections.abc import Generator
from contextlib import contextmanager

import requests

from infra.plan.names import Names
from infra.stack import Platform
from scripts.clients.secret import KeySecret
from scripts.shared.google_cloud import Cloud
from scripts.terminal.console import CommandError
from twin import daemon
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import secret_manager


@contextmanager
def open_secret(stack: str, platform: Platform, *, cloud: bool) -> Generator[KeySecret]:
    """Open the secret of a stack's keys.

    Args:
        stack: Name of the stack, for messages.
        platform: The stack.
        cloud: Whether it is in Google Cloud instead of on the twin.

    Raises:
        CloudError: There are no credentials, or Google refuses.
        CommandError: The twin does not run.
    """
    name = Names(platform).client_keys()
    if cloud:
        # Google's clients take a second to load, and the twin needs none of them.
        from scripts.shared import google_clients  # noqa: PLC0415

        with google_clients.plain_errors():
            yield KeySecret(google_clients.connect(platform.project), name)
        return
    paths = TwinPaths.default()
    if daemon.ports(paths) is None:
        raise CommandError(
            f"--stack: must be up on the twin, got {stack!r}; run make up STACK={stack}"
        )
    scheme, _, host = secret_manager.url(paths).partition("://")
    with requests.Session() as session:
        session.trust_env = False
        yield KeySecret(Cloud(platform.project, session, f"{scheme}://"), name, host)
