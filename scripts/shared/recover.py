"""Clears what an interrupted engine left in a stack's state.

The engine records an operation before it starts it. If it is killed, it cannot know whether the
cloud finished the operation. A refresh reads every resource and drops unfinished creations; the
next `up` sends them again, and the twin answers a repeated creation with the existing resource.
"""

from typing import Any

from scripts.shared.engine import Engine
from scripts.terminal.console import CommandError, console, one_line


def recover(engine: Engine, stack: str) -> None:
    """Reconcile a stack's state with the cloud after an interrupted run; otherwise do nothing.

    Raises:
        CommandError: The engine refuses.
    """
    pending: list[Any] = engine.deployment(stack).get("pending_operations") or []
    if not pending:
        return
    console.print(f"The last run was interrupted: checking {len(pending)} unfinished operations.")
    arguments = ("--yes", "--skip-preview", "--non-interactive", "--clear-pending-creates")
    answer = engine.run("refresh", *arguments, "-s", stack, capture=True)
    if answer.returncode:
        raise CommandError(f"{stack}: {one_line(answer.stdout + answer.stderr)}")
