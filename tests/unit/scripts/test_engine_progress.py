"""What an update shows while it runs, from the events that the Pulumi CLI writes."""

import math
from typing import Any

import pytest

from scripts.shared.engine_progress import Progress, end_of

STACK = "urn:pulumi:local::gke-inference::pulumi:pulumi:Stack::gke-inference-local"
SERVER = "urn:pulumi:local::gke-inference::gke-inference:index:ModelServer::us-central1-llama"
CLASS = (
    "urn:pulumi:local::gke-inference::gke-inference:index:ModelServer$gke-inference:index:"
    "ComputeClass::interactive"
)
POD = (
    "urn:pulumi:local::gke-inference::gke-inference:index:ModelServer$kubernetes:apps/v1:Deployment"
    "::llama-gpu"
)
GATEWAY = (
    "urn:pulumi:local::gke-inference::gke-inference:index:InferenceGateway$kubernetes:"
    "gateway.networking.k8s.io/v1:Gateway::models/inference"
)
CLAIM = POD.replace("::llama-gpu", "$kubernetes:core/v1:PersistentVolumeClaim::cache")


def finished(urn: str, op: str, parent: str) -> dict[str, Any]:
    side = "old" if op == "delete" else "new"
    return {"resOutputsEvent": {"metadata": {"urn": urn, "op": op, side: {"parent": parent}}}}


def status(urn: str, message: str) -> dict[str, Any]:
    return {"diagnosticEvent": {"urn": urn, "message": message, "ephemeral": True}}


def begun(urn: str, op: str, parent: str) -> dict[str, Any]:
    side = "old" if op == "delete" else "new"
    return {"resourcePreEvent": {"metadata": {"urn": urn, "op": op, side: {"parent": parent}}}}


def after(events: list[dict[str, Any]], now: float = 0.0) -> Progress:
    progress = Progress()
    for event in events:
        progress.take(event, now)
    return progress


def test_a_component_has_one_line_with_the_changes_in_it():
    progress = after(
        [
            begun(SERVER, "create", STACK),
            begun(POD, "update", SERVER),
            finished(SERVER, "create", STACK),
            finished(CLAIM, "create", POD),
            finished(POD, "update", SERVER),
        ]
    )
    assert progress.changed == 2
    assert list(progress.lines(3.9)) == []
    assert list(progress.lines(4.0)) == ["ModelServer us-central1-llama: 1 created, 1 updated"]
    assert list(progress.lines(math.inf)) == []


def test_a_component_has_no_line_while_a_change_in_it_runs():
    progress = after([finished(CLAIM, "create", SERVER), begun(POD, "create", SERVER)])
    assert list(progress.lines(60.0)) == []
    progress.take(finished(POD, "create", SERVER), 60.0)
    assert list(progress.lines(64.0)) == ["ModelServer us-central1-llama: 2 created"]


def test_an_inner_component_has_its_own_line_and_what_did_not_change_has_none():
    progress = after(
        [
            begun(CLASS, "same", SERVER),
            finished(CLAIM, "same", SERVER),
            finished(POD, "create-replacement", CLASS),
            finished(POD, "delete-replaced", CLASS),
        ]
    )
    assert list(progress.lines(math.inf)) == ["ComputeClass interactive: 1 replaced"]
    assert progress.changed == 1


def test_a_resource_of_no_component_counts_for_the_stack():
    progress = after([finished(POD, "delete", STACK)])
    assert list(progress.lines(math.inf)) == ["Outside components: 1 deleted"]


def test_a_gateway_that_waits_keeps_its_reason_while_other_resources_finish():
    pending = "condition Programmed is not True: Pending: port-8080: cannot bind"
    waiting = [
        begun(GATEWAY, "create", STACK),
        status(GATEWAY, pending),
        status(POD, "0 of 2 replicas ready"),
        finished(POD, "create", SERVER),
    ]
    assert after(waiting).status == f"models/inference: {pending}"
    assert after([*waiting, finished(GATEWAY, "create", STACK)]).status == ""
    failed = {"resOpFailedEvent": finished(GATEWAY, "create", STACK)["resOutputsEvent"]}
    assert after([*waiting, failed]).status == ""


def test_the_status_is_what_a_resource_waits_for_and_ends_with_a_change():
    progress = after([status(POD, "\x1b[0m0 of 2 replicas ready\n<{%reset%}>")])
    assert progress.status == "llama-gpu: 0 of 2 replicas ready"
    warning = {"urn": POD, "message": "a warning", "ephemeral": False}
    progress.take({"diagnosticEvent": warning}, 1.0)
    assert progress.status == "llama-gpu: 0 of 2 replicas ready"
    progress.take(finished(POD, "create", SERVER), 2.0)
    assert progress.status == ""


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (
            "Updating (local):\n +  a creating\n\nResources:\n    + 1 created\n",
            "Resources:\n    + 1 created",
        ),
        (
            "Updating:\n\n\x1b[1mDiagnostics:\x1b[0m\n  a:\n    error: b\n",
            "\x1b[1mDiagnostics:\x1b[0m\n  a:\n    error: b",
        ),
        ("error: the stack is locked\n", "error: the stack is locked"),
    ],
)  # fmt: skip
def test_of_its_own_output_the_end_is_shown_or_all_of_it_if_it_has_no_sections(output, shown):
    assert end_of(output) == shown
