"""What an update shows while it runs, from the events that the Pulumi CLI writes."""

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
CLAIM = POD.replace("::llama-gpu", "$kubernetes:core/v1:PersistentVolumeClaim::cache")


def finished(urn: str, op: str, parent: str) -> dict[str, Any]:
    side = "old" if op == "delete" else "new"
    return {"resOutputsEvent": {"metadata": {"urn": urn, "op": op, side: {"parent": parent}}}}


def status(urn: str, message: str) -> dict[str, Any]:
    return {"diagnosticEvent": {"urn": urn, "message": message, "ephemeral": True}}


def test_a_component_has_one_line_with_the_changes_in_it():
    progress = Progress()
    lines = [
        progress.take(event)
        for event in (
            {"resourcePreEvent": {"metadata": {"urn": SERVER, "op": "create", "new": {}}}},
            {
                "resourcePreEvent": {
                    "metadata": {"urn": POD, "op": "create", "new": {"parent": SERVER}}
                }
            },
            finished(CLAIM, "create", POD),
            finished(POD, "update", SERVER),
            finished(SERVER, "create", STACK),
        )
    ]
    assert lines == ["", "", "", "", "ModelServer us-central1-llama: 1 created, 1 updated"]
    assert progress.changed == 2
    assert list(progress.rest()) == []


def test_an_inner_component_has_its_own_line_and_what_did_not_change_has_none():
    progress = Progress()
    progress.take(finished(POD, "same", CLASS))
    assert progress.take(finished(CLASS, "same", SERVER)) == ""
    replaced = progress.take(finished(POD, "create-replacement", CLASS))
    assert replaced == "ComputeClass interactive: 1 replaced"
    assert progress.take(finished(POD, "delete-replaced", CLASS)) == ""
    assert progress.changed == 1


def test_a_component_has_its_line_when_its_last_change_ends_after_its_program():
    progress = Progress()
    begin = {"urn": POD, "op": "create", "new": {"parent": SERVER}}
    progress.take({"resourcePreEvent": {"metadata": begin}})
    assert progress.take(finished(SERVER, "create", STACK)) == ""
    done = progress.take(finished(POD, "create", SERVER))
    assert done == "ModelServer us-central1-llama: 1 created"


def test_components_that_never_end_are_shown_at_the_end_as_in_a_destroy():
    progress = Progress()
    progress.take(
        {"resourcePreEvent": {"metadata": {"urn": POD, "op": "delete", "old": {"parent": SERVER}}}}
    )
    progress.take(finished(POD, "delete", SERVER))
    assert list(progress.rest()) == ["ModelServer us-central1-llama: 1 deleted"]


def test_the_status_is_what_a_resource_waits_for_and_ends_with_a_change():
    progress = Progress()
    progress.take(status(POD, "\x1b[0m0 of 2 replicas ready\n<{%reset%}>"))
    assert progress.status == "llama-gpu: 0 of 2 replicas ready"
    progress.take({"diagnosticEvent": {"urn": POD, "message": "a warning", "ephemeral": False}})
    assert progress.status == "llama-gpu: 0 of 2 replicas ready"
    progress.take(finished(POD, "create", SERVER))
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
