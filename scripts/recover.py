"""Clears what a killed engine left in a stack's state, so that the next run is like any other.

The engine writes down what it is about to do. Killed in between, it cannot know whether the cloud
went on. A refresh asks the cloud about every resource and forgets unfinished creations; the next
`up` sends them again, and the twin answers a repeated creation with what it has made.
"""

from typing import Any

from scripts.console import CommandError, console
from scripts.engine import Engine


def recover(engine: Engine, stack: str) -> None:
    """Bring the state of a stack in line with the cloud after a killed run; otherwise do nothing.

    Raises:
        CommandError: the engine refuses.
    """
    pending: list[Any] = engine.deployment(stack).get("pending_operations") or []
    if not pending:
        return
    console.print(f"The last run was interrupted: looking up {len(pending)} unfinished operations.")
    arguments = ("--yes", "--skip-preview", "--non-interactive", "--clear-pending-creates")
    answer = engine.run("refresh", *arguments, "-s", stack, capture=True)
    if answer.returncode:
        raise CommandError(answer.stdout.strip() + answer.stderr.strip())
