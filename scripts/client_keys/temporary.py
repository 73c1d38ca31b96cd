"""Temporary keys for commands, for a stack on the twin whose gateway requires one."""

import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from infra.plan import Plan
from scripts.client_keys import documents
from scripts.client_keys.apps import app_keys
from scripts.client_keys.documents import Key
from scripts.client_keys.permissions import few_teams
from scripts.client_keys.reach import open_secret
from scripts.shared.model_client import KEY_VARIABLE, using_keys
from twin.host.paths import TwinPaths

_LIFETIME: Final = timedelta(hours=1)
_UNTIL_READ_SECONDS: Final = 2.5
"""Replicas of the gate read the keys every two seconds (workloads/gateway/callout); 20 requests
with a key that they do not know yet would shut this machine out for a minute."""


@contextmanager
def temporary_keys(stack: str, plan: Plan, names: Iterable[str]) -> Generator[None]:
    """Send requests for models with keys of teams that may ask them; revoke the keys at the end.

    With Apigee, send the keys of the stack's apps instead, which stay.
    Without a name that a team may ask, a key of the first team can still list the models. Does
    nothing if the gateway requires no key or the user has set one.

    Args:
        stack: Name of the stack.
        plan: The stack.
        names: Models and adapters to ask.

    Raises:
        CloudError: The twin refuses.
        CommandError: The twin does not run.
        KeyProblem: The secret holds something else.
    """
    if os.environ.get(KEY_VARIABLE):
        yield
        return
    if plan.clients is None:
        with using_keys(app_keys(plan, names, TwinPaths.default())):
            yield
        return
    teams = few_teams(plan, names) or {"": next(iter(plan.clients.settings.teams))}
    now = documents.utc_now()
    made = {team: documents.make(team, now, _LIFETIME) for team in sorted(set(teams.values()))}

    def add(found: list[Key]) -> list[Key]:
        for key, _ in made.values():
            found = documents.added(found, key, now)
        return found

    def revoke(found: list[Key]) -> list[Key]:
        for key, _ in made.values():
            found = documents.revoked(found, key.id, documents.utc_now())
        return found

    with open_secret(stack, plan, cloud=False) as secret:
        secret.change(add)
        try:
            time.sleep(_UNTIL_READ_SECONDS)
            with using_keys({name: made[team][1] for name, team in teams.items()}):
                yield
        finally:
            secret.change(revoke)
