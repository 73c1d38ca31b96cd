"""A temporary key for commands, for a stack on the twin whose gateway requires one."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from infra.plan import Plan
from scripts.clients import keys as documents
from scripts.clients.keys import Key
from scripts.clients.reach import open_secret
from scripts.shared.model_client import KEY_VARIABLE

_LIFETIME: Final = timedelta(hours=1)
_UNTIL_READ_SECONDS: Final = 2.5
"""Replicas of the gate read the keys every two seconds (workloads/gateway/callout); 20 requests
with a key that they do not know yet would shut this machine out for a minute."""


@contextmanager
def temporary_key(stack: str, plan: Plan) -> Generator[None]:
    """Give the process a key of the team with the highest limits; revoke it at the end.

    Does nothing if the gateway requires no key or the user has set one.

    Raises:
        CloudError: The twin refuses.
        CommandError: The twin does not run.
        KeyProblem: The secret holds something else.
    """
    if plan.clients is None or os.environ.get(KEY_VARIABLE):
        yield
        return
    teams = plan.clients.settings.teams
    widest = max(teams, key=lambda name: len(teams[name].models or plan.platform.models))
    now = documents.utc_now()
    key, text = documents.make(widest, now, _LIFETIME)

    def add(found: list[Key]) -> list[Key]:
        return documents.added(found, key, now)

    with open_secret(stack, plan, cloud=False) as secret:
        secret.change(add)
        os.environ[KEY_VARIABLE] = text
        time.sleep(_UNTIL_READ_SECONDS)
        try:
            yield
        finally:
            del os.environ[KEY_VARIABLE]
            secret.change(lambda found: documents.revoked(found, key.id, documents.utc_now()))
