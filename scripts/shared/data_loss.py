"""Finds the protected resources that an update would delete or replace.

Policies see only the resources that a stack will have; the engine's events also show deletions.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.plan.stateful import STATEFUL, may_be_lost, name_in_cloud
from infra.reading.load import read
from infra.stack.problems import StackError
from scripts.shared.pulumi_cli import EVENTS, PulumiCli, event_log
from scripts.terminal.console import CheckFailedError, CommandError, one_line

_REFUSED = re.compile(
    r'(?P<replace>unable to replace )?resource "(?P<urn>urn:pulumi:[^"]+)"'
    r"(?: cannot be deleted)?[^`]*(?:marked for protection|because it is protected)",
    re.DOTALL,
)
"""The engine's messages about a protected resource (v3.250.0, step_generator.go and step.go)."""
_REPLACES = frozenset(["create-replacement", "delete-replaced", "replace"])


@dataclass(frozen=True)
class Loss:
    """A protected resource that would be deleted or replaced."""

    action: str
    """`delete` or `replace`."""
    kind: str
    name: str
    """Name in the cloud, if it has one."""
    logical: str
    """Name in the program."""
    because: tuple[str, ...]
    """Properties whose change requires a replacement."""
    urn: str = ""

    def __str__(self) -> str:
        """Return the loss as a line of text."""
        changes = f" (changes: {', '.join(self.because)})" if self.because else ""
        return f"{self.action} {self.kind} {self.name}{changes}"


def losses(events: Iterable[str]) -> list[Loss]:
    """Return the deletions and replacements in a preview, each once, in the engine's order.

    Args:
        events: Lines of the engine's event log.
    """
    read = [json.loads(line) for line in events if line.strip()]
    found = losses_in(each.get("resourcePreEvent", {}).get("metadata", {}) for each in read)
    known = {loss.urn for loss in found}
    messages = [str(each.get("diagnosticEvent", {}).get("message", "")) for each in read]
    refused = {loss.urn: loss for loss in map(_refused, messages) if loss is not None}
    return [*found, *(loss for urn, loss in refused.items() if urn not in known)]


def _refused(message: str) -> Loss | None:
    """Return the loss of a protected resource that the engine refuses in a message.

    The preview ends there, so the events do not have the step.
    """
    found = _REFUSED.search(message)
    if found is None:
        return None
    urn = found["urn"]
    logical = urn.rsplit("::", 1)[-1]
    action = "replace" if found["replace"] else "delete"
    return Loss(action, urn.split("::")[2].rpartition(":")[2], logical, logical, (), urn)


def losses_in(steps: Iterable[dict[str, Any]]) -> list[Loss]:
    """Return the deletions and replacements in engine steps, each resource once.

    Args:
        steps: Steps of the engine's events: `op`, `urn`, `type`, `old`, `new`, `keys`.
    """
    found: dict[str, Loss] = {}
    for step in steps:
        loss = _loss(step) if step.get("type") in STATEFUL else None
        if loss is not None:
            known = found.get(loss.urn)
            because = loss.because or (known.because if known else ())
            found[loss.urn] = replace(loss, because=because)
    return list(found.values())


def _loss(step: dict[str, Any]) -> Loss | None:
    operation = str(step["op"])
    if operation != "delete" and operation not in _REPLACES:
        return None
    old: dict[str, Any] = step.get("old") or step.get("new") or {}
    inputs: dict[str, Any] = old.get("inputs") or {}
    logical = str(step["urn"]).rsplit("::", 1)[-1]
    return Loss(
        "delete" if operation == "delete" else "replace",
        str(step["type"]).rpartition(":")[2],
        name_in_cloud(inputs) or logical,
        logical,
        tuple(sorted(step.get("keys") or ())),
        str(step["urn"]),
    )


def unnamed(found: list[Loss], allowed: Iterable[str]) -> Iterator[Loss]:
    """Yield the losses that a stack does not allow by their name in the cloud or the program."""
    names = tuple(allowed)
    for loss in found:
        if not may_be_lost(names, loss.name, loss.logical):
            yield loss


def refuse_losses(stack: str, events: Path) -> None:
    """Check that an update has only losses that the stack allows.

    Raises:
        CheckFailedError: The message names the protected resources and the setting to allow them.
    """
    if not events.exists():
        return  # the engine did not start
    try:
        allowed = read(stack).allow_replace
    except StackError:
        return  # the engine rejected the stack with a reason
    with events.open() as lines:
        left = list(unnamed(losses(lines), allowed))
    if left:
        listing = "; ".join(str(loss) for loss in left)
        names = ", ".join(dict.fromkeys(loss.name for loss in left))
        raise CheckFailedError(
            f"{stack}: would lose protected resources: {listing}; to allow this, set"
            f" allow_replace: [{names}] in stacks/Pulumi.{stack}.yaml; remove it after the"
            " deployment"
        )


def has_guarded(engine: PulumiCli, stack: str) -> bool:
    """Return whether a stack has protected resources."""
    resources: list[dict[str, Any]] = engine.deployment(stack).get("resources") or []
    return any(resource.get("type") in STATEFUL for resource in resources)


def guard(engine: PulumiCli, stack: str) -> None:
    """Preview an update of a stack with protected resources; raise an error if it loses one.

    Raises:
        CommandError: The preview failed.
        CheckFailedError: A protected resource would be lost.
    """
    if not has_guarded(engine, stack):
        return
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.json"
        answer = engine.run(
            "preview", "-s", stack, *event_log(events), capture=True, environment=EVENTS
        )
        refuse_losses(
            stack, events
        )  # first, because the engine also refuses to delete protected resources
        if answer.returncode:
            why = one_line(answer.stderr or answer.stdout[-2000:])
            raise CommandError(f"the preview of {stack} failed: {why}")
