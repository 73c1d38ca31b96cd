"""Finds the protected resources that an update would delete or replace.

Policies see what a stack will have, never what it will no longer have; the engine's own events have
both.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.reading.load import read
from scripts.shared.engine import Engine
from scripts.terminal.console import CheckFailedError, CommandError, one_line

GUARDED = frozenset(
    [
        "gcp:compute/disk:Disk",
        "gcp:container/cluster:Cluster",
        "gcp:container/nodePool:NodePool",
        "gcp:filestore/instance:Instance",
        "gcp:lustre/instance:Instance",
        "gcp:storage/bucket:Bucket",
        "kubernetes:core/v1:PersistentVolumeClaim",
    ]
)
"""Types of protected resources: they hold data, or everything runs on them."""
_REPLACES = frozenset(["create-replacement", "delete-replaced", "replace"])


@dataclass(frozen=True)
class Loss:
    """A protected resource that would be deleted or replaced."""

    action: str
    """`delete` or `replace`."""
    kind: str
    name: str
    """Name in the cloud, if it has one of its own there."""
    logical: str
    """Name in the program."""
    because: tuple[str, ...]
    """Properties whose change requires a replacement."""
    urn: str = ""

    def __str__(self) -> str:
        """Return the line of a message."""
        changes = f" (changes: {', '.join(self.because)})" if self.because else ""
        return f"{self.action} {self.kind} {self.name}{changes}"


def losses(events: Iterable[str]) -> list[Loss]:
    """Return what is deleted or replaced in a preview, each once, in the engine's order.

    Args:
        events: Lines of the engine's event log.
    """
    read = (json.loads(line) for line in events if line.strip())
    return losses_in(each.get("resourcePreEvent", {}).get("metadata", {}) for each in read)


def losses_in(steps: Iterable[dict[str, Any]]) -> list[Loss]:
    """Return what is deleted or replaced in steps of the engine, each resource once.

    Args:
        steps: Steps of the engine's events: `op`, `urn`, `type`, `old`, `new`, `keys`.
    """
    found: dict[str, Loss] = {}
    for step in steps:
        loss = _loss(step) if step.get("type") in GUARDED else None
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
    metadata: dict[str, Any] = inputs.get("metadata") or {}
    name = inputs.get("name") or metadata.get("name")
    return Loss(
        "delete" if operation == "delete" else "replace",
        str(step["type"]).rpartition(":")[2],
        str(name or logical),
        logical,
        tuple(sorted(step.get("keys") or ())),
        str(step["urn"]),
    )


def unnamed(found: list[Loss], allowed: Iterable[str]) -> Iterator[Loss]:
    """Yield the losses that a stack does not allow, by their name in the cloud or the program."""
    names = set(allowed)
    for loss in found:
        if names.isdisjoint((loss.name, loss.logical)):
            yield loss


def refuse_losses(stack: str, events: Path) -> None:
    """Refuse an update that would lose something the stack does not allow.

    Raises:
        CheckFailedError: Names the protected resources, and the setting that allows the loss.
    """
    with events.open() as lines:
        left = list(unnamed(losses(lines), read(stack).allow_replace))
    if left:
        listing = "; ".join(str(loss) for loss in left)
        names = ", ".join(dict.fromkeys(loss.name for loss in left))
        raise CheckFailedError(
            f"{stack}: would lose protected resources: {listing}; to allow this, set"
            f" allow_replace: [{names}] in stacks/Pulumi.{stack}.yaml; remove it after the"
            " deployment"
        )


def has_guarded(engine: Engine, stack: str) -> bool:
    """Return whether a stack has protected resources."""
    resources: list[dict[str, Any]] = engine.deployment(stack).get("resources") or []
    return any(resource.get("type") in GUARDED for resource in resources)


def guard(engine: Engine, stack: str) -> None:
    """Preview an update of a stack that has protected resources, and refuse it if it loses one.

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
        if answer.returncode:
            why = one_line(answer.stderr or answer.stdout[-2000:])
            raise CommandError(f"the preview of {stack} failed: {why}")
        refuse_losses(stack, events)


EVENTS = {"PULUMI_DEBUG_COMMANDS": "true"}
"""Environment in which the CLI writes its events to a file."""


def event_log(file: Path) -> list[str]:
    """Return the arguments that make the CLI write its events to a file."""
    return ["--event-log", str(file)]
