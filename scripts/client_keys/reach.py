"""Access to the secret with a stack's keys, in Google's Secret Manager or in the twin's."""

from collections.abc import Generator
from contextlib import contextmanager

import requests

from infra.plan import Plan
from scripts.backend.twin import not_up
from scripts.client_keys.secret import KeySecret
from scripts.shared.google_cloud import Cloud
from scripts.terminal.where import Where, say_where
from twin import daemon
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import secret_manager
from twin.providers.gcp.effects.secret_store import SECRET
from twin.world.store import list_resources


@contextmanager
def open_secret(stack: str, plan: Plan, *, cloud: bool) -> Generator[KeySecret]:
    """Open the secret of a stack's keys.

    Args:
        stack: Name of the stack, for messages.
        plan: The stack.
        cloud: Whether it is in Google Cloud instead of on the twin.

    Raises:
        CloudError: There are no credentials, or Google refuses.
        CommandError: The stack is not up on the twin.
    """
    project, name = plan.project.id, plan.names.client_keys()
    say_where(Where.of(is_cloud=cloud), project)
    if cloud:
        # Google's clients take a second to load, and the twin needs none of them.
        from scripts.shared import google_clients  # noqa: PLC0415

        with google_clients.plain_errors():
            yield KeySecret(google_clients.connect(project), name)
        return
    paths = TwinPaths.default()
    if daemon.ports(paths) is None:
        raise not_up(stack, has_cloud=True)
    if not any(
        one.type == SECRET and one.id.endswith(f"/secrets/{name}") for one in list_resources(paths)
    ):
        raise not_up(stack, has_cloud=True)
    scheme, _, host = secret_manager.url(paths).partition("://")
    with requests.Session() as session:
        session.trust_env = False
        yield KeySecret(Cloud(project, session, f"{scheme}://"), name, host)
