"""Finds what a preview would delete or replace that holds data or serves.

Policies see what a stack will have, never what it will no longer have; the engine's own events say
both.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.reading.load import read
from scripts.console import CommandError
from scripts.engine import Engine

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
"""Types of resources that hold data, or that everything runs on."""
_REPLACES = frozenset(["create-replacement", "delete-replaced", "replace"])


@dataclass(frozen=True)
class Loss:
    """A resource that would be gone, or another one."""

    action: str
    """`delete` or `replace`."""
    kind: str
    name: str
    """In the cloud, where it has a name of its own there."""
    logical: str
    """In the program."""
    because: tuple[str, ...]
    """Properties that make it a replacement."""
    urn: str = ""

    def __str__(self) -> str:
        """Return the line of a message."""
        changes = f" (changes: {', '.join(self.because)})" if self.because else ""
        return f"{self.action} {self.kind} {self.name}{changes}"


def losses(events: Iterable[str]) -> list[Loss]:
    """Return what is deleted or replaced in a preview, each once, in the engine's order.

    Args:
        events: lines of the engine's event log.
    """
    read = (json.loads(line) for line in events if line.strip())
    return losses_in(each.get("resourcePreEvent", {}).get("metadata", {}) for each in read)


def losses_in(steps: Iterable[dict[str, Any]]) -> list[Loss]:
    """Return what is deleted or replaced in steps of the engine, each resource once.

    Args:
        steps: as the engine's events describe them: `op`, `urn`, `type`, `old`, `new`, `keys`.
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
    """Yield the losses that a stack does not name, by their name in the cloud or the program's."""
    names = set(allowed)
    for loss in found:
        if names.isdisjoint((loss.name, loss.logical)):
            yield loss


def refuse_losses(stack: str, events: Path) -> None:
    """Refuse a preview that would lose something the stack does not name.

    Raises:
        CommandError: what would be lost, and the words that mean it.
    """
    with events.open() as lines:
        left = list(unnamed(losses(lines), read(stack).allow_replace))
    if left:
        listing = "\n".join(f"  {loss}" for loss in left)
        names = ", ".join(dict.fromkeys(loss.name for loss in left))
        raise CommandError(
            f"{stack}: these hold data or serve, and would be lost:\n{listing}\n"
            f"Name what is meant under allow_replace in stacks/Pulumi.{stack}.yaml:\n"
            f"  allow_replace: [{names}]"
        )


def has_guarded(engine: Engine, stack: str) -> bool:
    """Say whether a stack has anything that could be lost."""
    resources: list[dict[str, Any]] = engine.deployment(stack).get("resources") or []
    return any(resource.get("type") in GUARDED for resource in resources)


def guard(engine: Engine, stack: str) -> None:
    """Preview an update of a stack that has something to lose, and refuse it if it would lose it.

    Raises:
        CommandError: the preview failed, or something would be lost.
    """
    if not has_guarded(engine, stack):
        return
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.json"
        answer = engine.run(
            "preview", "-s", stack, *event_log(events), capture=True, environment=EVENTS
        )
        if answer.returncode:
            said = answer.stderr.strip() or answer.stdout.strip()[-2000:]
            raise CommandError(f"the preview of {stack} failed:\n{said}")
        refuse_losses(stack, events)


EVENTS = {"PULUMI_DEBUG_COMMANDS": "true"}
"""What makes the CLI write its events to a file."""


def event_log(file: Path) -> list[str]:
    """Return the arguments that make the CLI write its events to a file."""
    return ["--event-log", str(file)]
