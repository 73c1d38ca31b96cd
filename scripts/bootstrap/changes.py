"""Previews and applies changes with the engine; its errors become one line."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pulumi import automation
from pulumi.automation import events

from scripts.shared.google_cloud import CloudError
from scripts.shared.stack_resource import STACK_TYPE

Program = Callable[[], None]

_ACTIONS: Final = ("create", "update", "replace", "delete")
"""Operations of the engine to show, each once: a replacement has three."""
_ENGINE_TYPES: Final = (STACK_TYPE, "pulumi:providers:gcp")
_KEPT_TYPES: Final = (
    "gcp:kms/cryptoKey:CryptoKey",
    "gcp:kms/keyRing:KeyRing",
    "gcp:projects/service:Service",
)
"""Types of resources that stay in the project when the program no longer has them."""
_NEW_API: Final = ("SERVICE_DISABLED", "has not been used in project", "it is disabled")
_TRIES: Final = 12
_SECONDS_BETWEEN: Final = 10.0


@dataclass(frozen=True)
class Change:
    """A resource that an operation of the engine changes."""

    action: str
    type: str
    name: str
    properties: tuple[str, ...] = ()
    """Changed properties of an update or a replacement."""

    def __str__(self) -> str:
        """Return a line with action, kind and name of the resource, and changed properties."""
        kind = self.type.rpartition(":")[2]
        details = f": {', '.join(self.properties)}" if self.properties else ""
        return f"{self.action:<8} {kind:<28} {self.name}{details}"


def deployment(stack: automation.Stack) -> dict[str, Any]:
    """Return a stack's state: `resources` and `pending_operations`, both perhaps missing."""
    return dict(stack.export_stack().deployment or {})


def preview(stack: automation.Stack, program: Program) -> list[Change]:
    """Return the changes of an update, after reading the project; change nothing.

    Raises:
        CloudError: The engine or Google refused.
    """
    found: list[Change] = []
    with one_line() as errors:
        stack.preview(
            program=program, refresh=True, color="never", on_event=_collector(found, errors)
        )
    return sorted(found, key=lambda change: change.name)


def preview_destroy(stack: automation.Stack) -> list[Change]:
    """Return the deletions of a destroy, except protected resources; change nothing.

    Raises:
        CloudError: The engine refused.
    """
    found: list[Change] = []
    with one_line() as errors:
        stack.preview_destroy(
            exclude_protected=True, color="never", on_event=_collector(found, errors)
        )
    return sorted(found, key=lambda change: change.name)


def update(
    stack: automation.Stack,
    program: Program,
    done: Callable[[Change], None],
    *,
    target: list[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Apply the program to the project.

    Args:
        stack: Stack, with its state in any place.
        program: Pulumi program.
        done: Function that is called with each change.
        target: URNs of the only resources to update.
        sleep: Function that waits for a newly enabled API, which takes up to two minutes.

    Raises:
        CloudError: The engine or Google refused; what is done stays done.
    """
    for attempt in range(_TRIES):
        try:
            with one_line() as errors:
                stack.up(
                    program=program,
                    refresh=target is None,
                    target=target,
                    color="never",
                    on_event=_reporter(done, errors),
                )
        except CloudError as error:
            if attempt == _TRIES - 1 or not any(text in str(error) for text in _NEW_API):
                raise
            sleep(_SECONDS_BETWEEN)
        else:
            return


def destroy(stack: automation.Stack, done: Callable[[Change], None]) -> None:
    """Delete everything in the state that Google can delete.

    Raises:
        CloudError: The engine or Google refused; what is done stays done.
    """
    with one_line() as errors:
        stack.destroy(color="never", on_event=_reporter(done, errors))


def adopt(stack: automation.Stack, resources: list[Any]) -> None:
    """Import existing resources into the state; the project does not change.

    Raises:
        CloudError: The engine or Google refused.
    """
    with one_line():
        stack.import_resources(resources=resources, protect=False, generate_code=False)


def forget_interrupted(stack: automation.Stack) -> None:
    """Drop the pending operations of a killed run; their results are adopted or repeated.

    Raises:
        CloudError: The engine or Google refused.
    """
    with one_line():
        stack.refresh(clear_pending_creates=True, color="never")


@contextmanager
def one_line() -> Generator[list[str]]:
    """Turn engine errors into one line; the list collects the messages of its events.

    Raises:
        CloudError: The engine or Google refused.
    """
    errors: list[str] = []
    try:
        yield errors
    except automation.CommandError as error:
        raise CloudError(explain([*errors, str(error)])) from None


def explain(messages: list[str]) -> str:
    """Return the first error of the engine as one line, with a known fix."""
    message = " ".join(messages[0].rpartition("stderr: ")[2].removeprefix("error: ").split())
    if "billing" in message.lower():
        return f"billing is off: link a billing account to the project ({message})"
    if "Error 403" in message and not any(text in message for text in _NEW_API):
        return f"no permission: {message}"
    return message


def _collector(found: list[Change], errors: list[str]) -> Callable[[Any], None]:
    def take(event: events.EngineEvent) -> None:
        _take_error(event, errors)
        change = _change(event.resource_pre_event)
        if change is not None:
            found.append(change)

    return take


def _reporter(done: Callable[[Change], None], errors: list[str]) -> Callable[[Any], None]:
    def take(event: events.EngineEvent) -> None:
        _take_error(event, errors)
        change = _change(event.res_outputs_event)
        if change is not None:
            done(change)

    return take


def _take_error(event: events.EngineEvent, errors: list[str]) -> None:
    diagnostic = event.diagnostic_event
    if (
        diagnostic is None
        or diagnostic.severity != "error"
        or "update failed" in diagnostic.message
    ):
        return
    name = (diagnostic.urn or "").rpartition("::")[2]
    message = diagnostic.message.strip().removeprefix("error:").strip()
    errors.append(f"{name}: {message}" if name else message)


def _change(event: Any) -> Change | None:
    """Return the change in an event, if any."""
    if event is None:
        return None
    metadata: events.StepEventMetadata = event.metadata
    action = str(metadata.op.value)
    if action not in _ACTIONS or metadata.type in _ENGINE_TYPES:
        return None
    if action == "delete" and metadata.type in _KEPT_TYPES:
        action = "keep"
    properties = tuple(metadata.diffs or ()) if action in ("update", "replace") else ()
    return Change(action, metadata.type, metadata.urn.rpartition("::")[2], properties)
