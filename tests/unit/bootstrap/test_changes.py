"""The engine's events become changes, and its errors one line."""

from types import SimpleNamespace
from typing import Any

import pytest
from pulumi import automation

from scripts.bootstrap import changes
from scripts.bootstrap.changes import Change
from scripts.shared.google_cloud import CloudError

DISABLED = "googleapi: Error 403: Cloud KMS API has not been used in project 1 before"


class Stack:
    """An engine that emits events, and fails as often as it is told."""

    def __init__(self, *failures: str, steps: tuple[Any, ...] = ()) -> None:
        self.failures = list(failures)
        self.steps = steps
        self.runs = 0

    def up(self, *, on_event: Any, **_: Any) -> None:
        self.runs += 1
        for step in self.steps:
            on_event(event(res_outputs_event=SimpleNamespace(metadata=step)))
        if self.failures:
            problem = self.failures.pop(0)
            diagnostic = SimpleNamespace(
                severity="error", message=f"error: {problem}", urn="urn::key prod"
            )
            on_event(event(diagnostic_event=diagnostic))
            raise automation.CommandError(automation.CommandResult("", "update failed", 255))

    def preview(self, *, on_event: Any, **_: Any) -> None:
        for step in self.steps:
            on_event(event(resource_pre_event=SimpleNamespace(metadata=step)))


def event(**parts: Any) -> SimpleNamespace:
    names = ("diagnostic_event", "res_outputs_event", "resource_pre_event")
    return SimpleNamespace(**{name: parts.get(name) for name in names})


def step(op: str, type_name: str, name: str, *diffs: str) -> SimpleNamespace:
    return SimpleNamespace(
        op=automation.OpType(op), type=type_name, urn=f"urn::{name}", diffs=list(diffs)
    )


def program() -> None:
    """Declare nothing."""


def updated(stack: Any) -> tuple[list[Change], list[float]]:
    done: list[Change] = []
    waits: list[float] = []
    changes.update(stack, program, done.append, sleep=waits.append)
    return done, waits


def test_a_preview_is_a_line_for_each_change_by_name():
    stack: Any = Stack(
        steps=(
            step("same", "gcp:kms/keyRing:KeyRing", "key-ring us-central1"),
            step("update", "gcp:storage/bucket:Bucket", "state-bucket", "versioning"),
            step("create", "pulumi:pulumi:Stack", "gke-inference-bootstrap"),
            step("create", "gcp:projects/service:Service", "api iam"),
        )
    )
    assert [str(change) for change in changes.preview(stack, program)] == [
        "create   Service                      api iam",
        "update   Bucket                       state-bucket: versioning",
    ]


def test_what_google_never_deletes_is_kept():
    stack: Any = Stack(steps=(step("delete", "gcp:kms/cryptoKey:CryptoKey", "key prod"),))
    (change,) = changes.preview(stack, program)
    assert change.action == "keep"


def test_a_failed_update_is_one_line_with_the_resource():
    stack: Any = Stack("googleapi: Error 400: a line\n  and more")
    with pytest.raises(CloudError) as refusal:
        updated(stack)
    assert str(refusal.value) == "key prod: googleapi: Error 400: a line and more"
    assert stack.runs == 1


def test_an_api_that_is_new_is_waited_for():
    created = step("create", "gcp:kms/cryptoKey:CryptoKey", "key prod")
    stack: Any = Stack(DISABLED, DISABLED, steps=(created,))
    done, waits = updated(stack)
    assert waits == [10.0, 10.0]
    assert done[-1] == Change("create", "gcp:kms/cryptoKey:CryptoKey", "key prod")


def test_an_api_that_stays_off_is_given_up_after_two_minutes():
    stack: Any = Stack(*[DISABLED] * 20)
    with pytest.raises(CloudError, match="has not been used in project"):
        updated(stack)
    assert stack.runs == 12


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "googleapi: Error 403: denied on resource",
            "no permission: key prod: googleapi: Error 403: denied on resource",
        ),
        (
            "googleapi: Error 400: Billing account is not open",
            "billing is off: link a billing account to the project"
            " (key prod: googleapi: Error 400: Billing account is not open)",
        ),
    ],
)
def test_a_refusal_of_google_has_what_to_do(message, line):
    stack: Any = Stack(message)
    with pytest.raises(CloudError) as refusal:
        updated(stack)
    assert str(refusal.value) == line
